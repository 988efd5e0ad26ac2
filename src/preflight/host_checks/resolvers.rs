//! Programs that write `/etc/resolv.conf` again after kubexm.

use kubexm_config::cluster::Resolvers;
use kubexm_types::FindingKind;

use super::check::{Asked, HostCheck, Problem, When};

pub(super) const RESOLVERS: HostCheck = HostCheck {
    kind: FindingKind::DnsServers,
    when: When::Always,
    read: "DHCP clients, netconfig and cloud-init, which write /etc/resolv.conf",
    find: resolvers,
};

fn resolvers(asked: &Asked<'_>) -> Vec<Problem> {
    let Some(own) = &asked.cluster.system.resolvers else {
        return Vec::new();
    };
    // kubexm configures NetworkManager, which writes the file.
    if asked.facts.network_manager {
        return Vec::new();
    }
    let writers = asked.answers.all("resolv_writer").iter();
    writers
        .filter_map(|line| {
            let (program, file) = line.split_once(' ')?;
            let (fix, command) = remedy(program, file, own)?;
            Some(Problem {
                breaks: false,
                is_later: true,
                what: format!("{program} writes /etc/resolv.conf (its settings are in {file})"),
                evidence: Vec::new(),
                cause: "its next run, such as that of the next boot, replaces the name servers of spec.system.resolvers".to_owned(),
                fix: fix.to_owned(),
                commands: vec![command],
            })
        })
        .collect()
}

/// Returns what a user can do about a program with this file, and the command.
fn remedy(program: &str, file: &str, own: &Resolvers) -> Option<(&'static str, String)> {
    let servers: Vec<String> = own.servers.iter().map(ToString::to_string).collect();
    Some(match program {
        "dhclient" => (
            "give it the servers of the cluster file",
            format!(
                "echo 'supersede domain-name-servers {};' >>{file}",
                servers.join(", ")
            ),
        ),
        "dhcpcd" => (
            "let it leave the file alone",
            format!("echo 'nohook resolv.conf' >>{file}"),
        ),
        "netconfig" => (
            "let it leave the file alone",
            format!("sed -i 's/^NETCONFIG_DNS_POLICY=.*/NETCONFIG_DNS_POLICY=\"\"/' {file}"),
        ),
        "cloud-init" => (
            "let it leave the file alone",
            format!("sed -i 's/^\\( *manage_resolv_conf *\\):.*/\\1: false/' {file}"),
        ),
        _ => return None,
    })
}

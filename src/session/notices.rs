//! Warnings about the files that users write, and about experimental hosts.

use std::collections::BTreeMap;
use std::path::Path;

use kubexm_config::{Cluster, Notice, experimental};
use kubexm_host::facts::Facts;
use kubexm_types::event::Events;
use kubexm_types::{Arch, HostName, Message, WarningKind};

/// Emits one warning for each notice.
pub fn emit(notices: &[Notice], events: &Events) {
    for notice in notices {
        events.warn(WarningKind::Settings, notice);
    }
}

/// Emits one warning if a cluster file selects settings that no test has run on a real host.
pub fn emit_experimental(file: &Path, cluster: &Cluster, events: &Events) {
    let selected = experimental::selected(cluster);
    if selected.is_empty() {
        return;
    }
    let text = format!("experimental settings: {}", selected.join("; "));
    let hint = "no test has run them on a real host; test them on a cluster without data first";
    events.warn(
        WarningKind::Experimental,
        Message::new(text).hint(hint).within(file.display()),
    );
}

/// Emits one warning if there are hosts on whose distribution or architecture no test has installed a cluster.
pub fn emit_experimental_hosts(facts: &BTreeMap<HostName, Facts>, events: &Events) {
    let hosts = experimental_hosts(facts);
    if !hosts.is_empty() {
        let text = format!("experimental hosts: {}", hosts.join(", "));
        let hint = "no test has installed a cluster on such a host; tests use Debian on amd64";
        events.warn(WarningKind::Experimental, Message::new(text).hint(hint));
    }
}

/// Describes the hosts that are not Debian on amd64.
fn experimental_hosts(facts: &BTreeMap<HostName, Facts>) -> Vec<String> {
    let describe = |(name, facts): (&HostName, &Facts)| {
        let is_debian = facts.os.id.as_deref() == Some("debian");
        if is_debian && facts.arch() == Some(Arch::Amd64) {
            return None;
        }
        let id = facts.os.id.as_deref().unwrap_or("unknown distribution");
        let system = facts.os.name.as_deref().unwrap_or(id);
        Some(format!("{name} ({system}, {})", facts.machine))
    };
    facts.iter().filter_map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_host::facts::Os;

    #[test]
    fn hosts_other_than_debian_on_amd64_are_experimental() {
        let host = |name: &str, id: &str, pretty: &str, machine: &str| {
            let facts = Facts {
                machine: machine.to_owned(),
                os: Os {
                    id: Some(id.to_owned()),
                    name: Some(pretty.to_owned()),
                    ..Os::default()
                },
                ..Facts::default()
            };
            (HostName::parse(name).unwrap(), facts)
        };
        let facts = BTreeMap::from([
            host("node1", "debian", "Debian GNU/Linux 13 (trixie)", "x86_64"),
            host("node2", "ubuntu", "Ubuntu 24.04.3 LTS", "x86_64"),
            host(
                "node3",
                "debian",
                "Debian GNU/Linux 12 (bookworm)",
                "aarch64",
            ),
        ]);
        assert_eq!(
            experimental_hosts(&facts),
            [
                "node2 (Ubuntu 24.04.3 LTS, x86_64)",
                "node3 (Debian GNU/Linux 12 (bookworm), aarch64)"
            ]
        );
    }
}

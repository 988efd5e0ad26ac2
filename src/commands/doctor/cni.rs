//! What earlier clusters and other programs left in the configuration of CNI.

use super::answers::Answers;
use super::check::{Found, Outcome};
use super::seen::Seen;
use crate::quoting::quoted;
use kubexm_config::cluster::NetworkPlugin;
use kubexm_types::HostName;

pub(super) fn leftovers(seen: &Seen) -> Outcome {
    if seen.hosts.is_empty() {
        return Outcome::Unknown("no host answers".to_owned());
    }
    let mut all = Vec::new();
    for (host, answers) in seen.hosts().filter(|(name, _)| seen.cluster.is_node(name)) {
        all.extend(bridge(seen, host, answers));
        all.extend(configurations(seen, host, answers));
        all.extend(leases(seen, host, answers));
    }
    Outcome::Known(all)
}

fn bridge(seen: &Seen, host: &HostName, answers: &Answers) -> Option<Found> {
    let subnet = answers.one("flannel_subnet")?;
    let address = answers.word("bridge", "cni0")?;
    if address.split(',').any(|one| one == subnet) {
        return None;
    }
    let found = Found::new(format!("the bridge cni0 has the address {address}, and flannel's subnet is {subnet}"))
        .on(host)
        .cause("the bridge is left from an earlier cluster: new pods fail with '\"cni0\" already has an IP address different from'")
        .fix("delete the bridge, which the next pod creates again, then the pods that were on it")
        .run(seen.line.on(host, "ip link delete cni0"));
    Some(found)
}

/// Returns how the network configuration of the cluster's plugin begins; `None` if the user installs a plugin.
fn own_prefix(plugin: &NetworkPlugin) -> Option<&'static str> {
    match plugin {
        NetworkPlugin::Flannel(_) => Some("10-flannel."),
        NetworkPlugin::Calico(_) => Some("10-calico."),
        NetworkPlugin::Cilium(_) => Some("05-cilium."),
        NetworkPlugin::Bridge => Some("10-kubexm-"),
        NetworkPlugin::None => None,
    }
}

/// Finds network configurations before the one of the cluster. Files behind it have no effect: podman and CRI-O bring some.
fn configurations(seen: &Seen, host: &HostName, answers: &Answers) -> Option<Found> {
    let prefix = own_prefix(&seen.cluster.network.plugin)?;
    let name = |file: &str| file.rsplit('/').next().unwrap_or(file).to_owned();
    let mut files: Vec<&String> = answers.all("cni_file").iter().collect();
    // Multus is meant to be the first one: it calls the plugin of the cluster.
    files.retain(|file| !name(file).contains("multus"));
    files.sort_by_key(|file| name(file));
    let first = name(files.first()?);
    let Some(own) = files.iter().position(|file| name(file).starts_with(prefix)) else {
        let found = Found::new(format!("the network plugin has no file in /etc/cni/net.d, and the runtime uses {first}"))
            .on(host)
            .evidence(&files)
            .cause("the pod that writes the file does not run, or the file was removed by hand: new pods get the network of another program")
            .fix("start the pod of the network plugin on this node again, or write the files of the install again")
            .run(seen.line.install());
        return Some(found.likely());
    };
    if own == 0 {
        return None;
    }
    let mut found = Found::new(format!("the runtime uses {first} in /etc/cni/net.d, and not the file of the network plugin"))
        .on(host)
        .evidence(&files)
        .cause("the runtime uses the first file by name, which is of an earlier cluster or of another program")
        .fix("remove the files before the one of the network plugin, and restart the runtime")
        .likely();
    for file in &files[..own] {
        found = found.run(seen.line.on(host, &format!("rm {}", quoted(file))));
    }
    let restart = format!("systemctl restart {}", seen.runtime_unit());
    Some(found.run(seen.line.on(host, &restart)))
}

fn leases(seen: &Seen, host: &HostName, answers: &Answers) -> Vec<Found> {
    let sandboxes = answers.one("sandboxes");
    let Some(sandboxes) = sandboxes.and_then(|count| count.parse::<usize>().ok()) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for line in answers.all("cni_leases") {
        let Some((network, count)) = line.split_once(' ') else {
            continue;
        };
        let Ok(count) = count.parse::<usize>() else {
            continue;
        };
        // A subnet of a node has 254 addresses; leases of sandboxes that were killed stay.
        if count < 230 || count <= sandboxes + 50 {
            continue;
        }
        let folder = format!("/var/lib/cni/networks/{network}");
        let found = Found::new(format!("the network {network} has {count} leases for {sandboxes} pods"))
            .on(host)
            .cause("leases of pods that no longer exist use up the addresses: 'no IP addresses available in range'")
            .fix("drain the node, remove the leases, and restart the runtime")
            .run(seen.line.kubectl(seen.administrator(), &format!("drain {host} --ignore-daemonsets")))
            .run(seen.line.on(host, &format!("rm -r {}", quoted(&folder))));
        all.push(found);
    }
    all
}

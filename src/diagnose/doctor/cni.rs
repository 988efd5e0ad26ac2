//! What earlier clusters and other programs left in the configuration of CNI.

use super::answers::Answers;
use super::check::{Found, Outcome, Topic};
use super::seen::Seen;
use kubexm_config::cluster::PluginKind;
use kubexm_preflight::host_checks;
use kubexm_session::quoting::quoted;
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
    // A bridge that only has its address of the link gets the one of the subnet from the next pod.
    if address.split(',').any(|one| one == subnet) || address.starts_with("fe80:") {
        return None;
    }
    let change = |words: &str, address: &str| {
        let words = format!("ip addr {words} {} dev cni0", quoted(address));
        seen.line.on(host, &words)
    };
    let found = Found::new(format!("the bridge cni0 has the address {address}, and flannel's subnet is {subnet}"))
        .on(host)
        .on_topic(Some(Topic::Bridge))
        .cause("the bridge is left from an earlier cluster: new pods fail with '\"cni0\" already has an IP address different from'")
        .fix("give the bridge the address of flannel's subnet, and delete the pods that have an address of the earlier one")
        .run(change("del", address))
        .run(change("replace", subnet));
    Some(found)
}

/// Adds the command after which the network plugin has its file on a host again. The pods write it when they start.
fn write_again(seen: &Seen, host: &HostName, found: Found) -> Found {
    let pods = match seen.cluster.network.plugin.kind() {
        PluginKind::Flannel => "-n kube-flannel delete pods -l app=flannel",
        PluginKind::Calico => "-n kube-system delete pods -l k8s-app=calico-node",
        PluginKind::Cilium => "-n kube-system delete pods -l k8s-app=cilium",
        PluginKind::Bridge => return found.run(seen.line.install()),
        PluginKind::None => return found,
    };
    let words = format!("{pods} --field-selector spec.nodeName={host}");
    found.run(seen.line.kubectl(seen.administrator(), &words))
}

/// Returns the problem of a host whose runtime has no network for pods.
pub(super) fn without_network(seen: &Seen, host: &HostName, reason: String) -> Found {
    let found = Found::new("the container runtime has no network for pods")
        .on(host)
        .evidence([reason]);
    let prefix = seen.cluster.network.plugin.properties().cni_file;
    let answers = seen.hosts.get(host).filter(|_| prefix.is_some());
    if answers.is_some_and(|answers| answers.all("cni_file").is_empty()) {
        let found = found
            .cause("/etc/cni/net.d has no file: it was removed by hand, or the pod of the network plugin has not written it")
            .fix("make the network plugin write its file again");
        return write_again(seen, host, found);
    }
    let words = format!("get pods -A -o wide --field-selector spec.nodeName={host}");
    found
        .cause("the file of the network plugin in /etc/cni/net.d is missing or cannot be used")
        .fix("look at the pod of the network plugin on this node, and start it again")
        .run(seen.line.kubectl(seen.administrator(), &words))
}

/// Finds network configurations before the one of the cluster. Files behind it have no effect: podman and CRI-O bring some.
fn configurations(seen: &Seen, host: &HostName, answers: &Answers) -> Option<Found> {
    let prefix = seen.cluster.network.plugin.properties().cni_file?;
    let name = |file: &str| file.rsplit('/').next().unwrap_or(file).to_owned();
    let mut files: Vec<&String> = answers.all("cni_file").iter().collect();
    // Multus is meant to be the first one: it calls the plugin of the cluster.
    files.retain(|file| !name(file).contains("multus"));
    files.sort_by_key(|file| name(file));
    let first = name(files.first()?);
    if !files.iter().any(|file| name(file).starts_with(prefix)) {
        let found = Found::new(format!("the network plugin has no file in /etc/cni/net.d, and the runtime uses {first}"))
            .on(host)
            .evidence(&files)
            .cause("the pod that writes the file does not run, or the file was removed by hand: new pods get the network of another program")
            .fix("make the network plugin write its file again");
        return Some(write_again(seen, host, found).likely());
    }
    let before = host_checks::before(answers.all("cni_file"), prefix);
    if before.is_empty() {
        return None;
    }
    let mut found = Found::new(format!("the runtime uses {first} in /etc/cni/net.d, and not the file of the network plugin"))
        .on(host)
        .evidence(&files)
        .cause("the runtime uses the first file by name, which is of an earlier cluster or of another program")
        .fix("remove the files before the one of the network plugin, and restart the runtime")
        .likely();
    for file in before {
        found = found.run(seen.line.on(host, &format!("rm {}", quoted(file))));
    }
    let restart = format!("systemctl restart {}", seen.runtime_unit());
    Some(found.run(seen.line.on(host, &restart)))
}

/// Returns the line of shell that runs a command for each lease whose pod the runtime does not have. The runtime does not list a
/// pod while its network is being created, so that leases of the last ten minutes do not count.
fn for_each_stale(folder: &str, command: &str) -> String {
    let folder = quoted(folder);
    format!(
        "pods=$(crictl pods -q --no-trunc) && cd {folder} && \
         find . -maxdepth 1 -type f -name \"[0-9a-f]*[.:]*\" -mmin +10 | while read -r lease; do \
         id=$(head -n 1 \"$lease\" | tr -d \"\\r\"); \
         case \"$pods\" in *\"$id\"*) ;; *) {command} \"$lease\" ;; esac; done"
    )
}

fn leases(seen: &Seen, host: &HostName, answers: &Answers) -> Vec<Found> {
    let sandboxes = answers.one("sandboxes");
    let Some(sandboxes) = sandboxes.and_then(|count| count.parse::<usize>().ok()) else {
        return Vec::new();
    };
    let own = seen.cluster.network.plugin.properties().lease_network;
    let mut all = Vec::new();
    for line in answers.all("cni_leases") {
        let Some((network, count)) = line.split_once(' ') else {
            continue;
        };
        let Ok(count) = count.parse::<usize>() else {
            continue;
        };
        // A subnet of a node has 254 addresses; leases of sandboxes that were killed stay. Other networks are those of podman.
        if count < 230 || count <= sandboxes + 50 || own.is_some_and(|own| own != network) {
            continue;
        }
        let found = Found::new(format!("the network {network} has {count} leases for {sandboxes} pods"))
            .on(host)
            .on_topic(Some(Topic::Leases))
            .cause("leases of pods that no longer exist use up the addresses: 'no IP addresses available in range'");
        let folder = format!("/var/lib/cni/networks/{network}");
        all.push(match own {
            Some(_) => found
                .fix("remove the leases whose pod the runtime does not have; pods that run keep theirs")
                .run(seen.line.shell(host, &for_each_stale(&folder, "rm"))),
            None => found
                .fix("look at the leases without a pod; remove those that belong to no other program, such as podman")
                .likely()
                .run(seen.line.shell(host, &for_each_stale(&folder, "echo"))),
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;
    use std::time::{Duration, SystemTime};

    use super::*;

    /// Runs the line with a runtime, and returns the leases that are left. The newest one is that of 10.244.1.5.
    fn left(crictl: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let leases = folder.path().join("my leases");
        fs::create_dir(&leases).unwrap();
        let old = SystemTime::now() - Duration::from_secs(3600);
        for (name, content) in [
            ("10.244.1.2", "aaaa\r\neth0"),
            ("10.244.1.3", "bbbb\r\neth0"),
            ("fd00::3", "bbbb\r\neth0"),
            ("10.244.1.4", ""),
            ("10.244.1.5", "cccc\r\neth0"),
            ("last_reserved_ip.0", "10.244.1.5"),
            ("lock", ""),
        ] {
            let path = leases.join(name);
            fs::write(&path, content).unwrap();
            if name != "10.244.1.5" {
                let file = fs::File::options().write(true).open(&path).unwrap();
                file.set_modified(old).unwrap();
            }
        }
        let program = folder.path().join("crictl");
        fs::write(&program, format!("#!/bin/sh\n{crictl}\n")).unwrap();
        fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin", folder.path().display());
        let line = for_each_stale(&leases.display().to_string(), "rm");
        let mut command = Command::new("sh");
        command.args(["-c", &line]).env("PATH", path);
        command.status().unwrap();
        let left = fs::read_dir(&leases).unwrap();
        let left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut left: Vec<String> = left.collect();
        left.sort();
        left
    }

    #[test]
    fn only_old_leases_without_a_pod_are_removed() {
        assert_eq!(
            left("echo aaaa; echo dddd"),
            [
                "10.244.1.2",
                "10.244.1.4",
                "10.244.1.5",
                "last_reserved_ip.0",
                "lock"
            ]
        );
        assert_eq!(left("echo aaaa; exit 1").len(), 7);
    }
}

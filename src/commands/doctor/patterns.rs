//! What programs log when something is wrong: one table for all logs.

use super::check::Found;
use super::seen::{Logs, Seen};
use crate::logs::LogEntry;
use kubexm_types::HostName;

/// Seconds up to which an entry counts by itself.
const FRESH: i64 = 180;
/// The most entries that a finding quotes.
const QUOTED: usize = 3;

/// When an entry of a log is a finding. Logs also have what is over.
#[derive(Debug, Clone, Copy)]
enum If {
    /// It is at most three minutes old.
    Fresh,
    /// The program on this host is not healthy now.
    Unhealthy(&'static str),
    /// A pod on this node is not ready now; without an API server, the entry is fresh.
    Pods,
    /// The check found the same on the host by its state: the entry is only evidence.
    Evidence,
}

/// A row of the table.
struct Pattern {
    check: &'static str,
    /// Units and containers of the cluster; none for all.
    sources: &'static [&'static str],
    /// Texts that the entry contains, all of them.
    texts: &'static [&'static str],
    /// The smallest number of entries.
    least: usize,
    condition: If,
    what: &'static str,
    cause: &'static str,
    fix: &'static str,
}

const KUBELET: &[&str] = &["kubelet"];
const PULLS: &[&str] = &["kubelet", "containerd", "crio", "docker", "cri-dockerd"];
const ETCD: &[&str] = &["etcd"];

const fn row(
    check: &'static str,
    sources: &'static [&'static str],
    texts: &'static [&'static str],
    condition: If,
    [what, cause, fix]: [&'static str; 3],
) -> Pattern {
    Pattern {
        check,
        sources,
        texts,
        least: 1,
        condition,
        what,
        cause,
        fix,
    }
}

const FLAGS: [&str; 3] = [
    "the kubelet refuses its flags or its configuration",
    "the program does not know a flag, a feature gate or a field, as after an upgrade",
    "remove what the evidence names from the file that has it, then restart the kubelet",
];
const LEFT_OVER: [&str; 3] = [
    "new pods get no address",
    "a bridge or leases of an earlier cluster are left",
    "delete the bridge cni0 and the leases in /var/lib/cni/networks of this node",
];
const OLD_CREDENTIALS: [&str; 3] = [
    "the kubelet cannot log in to the API server",
    "its client certificate has expired or is missing, and its bootstrap token is of the past",
    "renew the kubelet's credentials with `kubexm certs renew --host`",
];
const DATA: [&str; 3] = [
    "etcd refuses the data of this member",
    "files are damaged, or of another cluster: after a power failure, a full disk, or a copy",
    "remove the member, empty its data directory, and let an install add it again; the others have the data",
];
const REMOVED: [&str; 3] = [
    "the member was removed from its cluster",
    "somebody removed the member, and its host still runs it",
    "empty its data directory, and let an install add it again",
];
const SANDBOX: [&str; 3] = [
    "the sandbox image cannot be pulled",
    "the runtime wants another pause image than the bundle has, or asks the internet for it",
    "compare it with `kubeadm config images list`, and write the configuration of the install again",
];
const INTERNET: [&str; 3] = [
    "the runtime asks registries of the internet",
    "the mirror does not have the image, or is not configured for this name",
    "add the image to the bundle; write the configuration of the install again",
];
const UNKNOWN_CA: [&str; 3] = [
    "pulls fail, because the certificate of a registry is not accepted",
    "the CA of the registry is not in the hosts.toml of this name",
    "write the configuration of the install again",
];

const TABLE: &[Pattern] = &[
    row(
        "swap",
        KUBELET,
        &["running with swap on is not supported"],
        If::Unhealthy("kubelet"),
        [
            "the kubelet does not start with swap",
            "a reboot or a unit turned swap on",
            "turn swap off, also in /etc/fstab and among the units of systemd",
        ],
    ),
    row(
        "cgroup",
        KUBELET,
        &["cgroup v1", "not"],
        If::Unhealthy("kubelet"),
        [
            "the kubelet does not start with cgroups of version 1",
            "a kubelet of 1.35 or newer refuses them",
            "boot with systemd.unified_cgroup_hierarchy=1, or set failCgroupV1: false",
        ],
    ),
    row(
        "cgroup-driver",
        KUBELET,
        &["cgroup driver", "is different from"],
        If::Unhealthy("kubelet"),
        [
            "the kubelet and the runtime have different cgroup drivers",
            "one of both configurations was changed",
            "write the configuration of the install again",
        ],
    ),
    row(
        "kubelet-settings",
        KUBELET,
        &["unknown flag"],
        If::Unhealthy("kubelet"),
        FLAGS,
    ),
    row(
        "kubelet-settings",
        KUBELET,
        &["failed to parse kubelet flag"],
        If::Unhealthy("kubelet"),
        FLAGS,
    ),
    row(
        "kubelet-settings",
        KUBELET,
        &["unrecognized feature gate"],
        If::Unhealthy("kubelet"),
        FLAGS,
    ),
    row(
        "kubelet-settings",
        KUBELET,
        &["failed to load kubelet config file"],
        If::Unhealthy("kubelet"),
        FLAGS,
    ),
    row(
        "kubelet-settings",
        KUBELET,
        &["invalid configuration"],
        If::Unhealthy("kubelet"),
        FLAGS,
    ),
    row(
        "kubelet-credentials",
        KUBELET,
        &["existing bootstrap client certificate"],
        If::Unhealthy("kubelet"),
        OLD_CREDENTIALS,
    ),
    row(
        "kubelet-credentials",
        KUBELET,
        &["unable to load bootstrap kubeconfig"],
        If::Unhealthy("kubelet"),
        OLD_CREDENTIALS,
    ),
    row(
        "kubelet-credentials",
        KUBELET,
        &["bootstrap-kubelet.conf: no such file"],
        If::Unhealthy("kubelet"),
        OLD_CREDENTIALS,
    ),
    row(
        "runtime",
        KUBELET,
        &["unknown service runtime.v1.RuntimeService"],
        If::Evidence,
        [""; 3],
    ),
    row(
        "sandbox-image",
        PULLS,
        &["failed to get sandbox image"],
        If::Pods,
        SANDBOX,
    ),
    row(
        "registry-ca",
        PULLS,
        &["pull", "x509: certificate signed by unknown authority"],
        If::Pods,
        UNKNOWN_CA,
    ),
    row(
        "registry-mirrors",
        PULLS,
        &["registry-1.docker.io"],
        If::Pods,
        INTERNET,
    ),
    row(
        "registry-mirrors",
        PULLS,
        &["lookup registry.k8s.io"],
        If::Pods,
        INTERNET,
    ),
    row(
        "cni-leftovers",
        PULLS,
        &["already has an IP address different from"],
        If::Pods,
        LEFT_OVER,
    ),
    row(
        "cni-leftovers",
        PULLS,
        &["no IP addresses available in range"],
        If::Pods,
        LEFT_OVER,
    ),
    row(
        "network-program",
        PULLS,
        &["failed to find plugin"],
        If::Pods,
        [
            "a CNI plugin is missing",
            "the programs in /opt/cni/bin were removed",
            "write the files of the install again",
        ],
    ),
    row(
        "dns",
        &["coredns"],
        &["no nameservers found"],
        If::Evidence,
        [""; 3],
    ),
    row(
        "etcd-alarm",
        &["etcd", "kube-apiserver"],
        &["database space exceeded"],
        If::Evidence,
        [""; 3],
    ),
    row(
        "etcd-members",
        ETCD,
        &["permanently removed from the cluster"],
        If::Unhealthy("etcd"),
        REMOVED,
    ),
    row(
        "etcd-data",
        ETCD,
        &["crc mismatch"],
        If::Unhealthy("etcd"),
        DATA,
    ),
    row("etcd-data", ETCD, &["cluster ID mismatch"], If::Fresh, DATA),
    row(
        "etcd-data",
        ETCD,
        &["tocommit", "is out of range"],
        If::Unhealthy("etcd"),
        DATA,
    ),
    row(
        "etcd-quorum",
        &["kube-apiserver"],
        &["etcdserver: request timed out"],
        If::Evidence,
        [""; 3],
    ),
    row(
        "clock",
        ETCD,
        &["clock difference", "too high"],
        If::Evidence,
        [""; 3],
    ),
    row(
        "webhooks",
        &["kube-apiserver"],
        &["failed calling webhook"],
        If::Evidence,
        [""; 3],
    ),
    row(
        "kernel-limits",
        &[],
        &["too many open files"],
        If::Fresh,
        [
            "programs have no more file descriptors or inotify watches",
            "a limit of the kernel is too small for the number of pods",
            "raise fs.inotify.max_user_instances and fs.inotify.max_user_watches in spec.system.sysctl",
        ],
    ),
    row(
        "kernel-limits",
        &["kernel"],
        &["nf_conntrack: table full"],
        If::Fresh,
        [
            "the table of connections is full",
            "the kernel drops packets of new connections",
            "raise net.netfilter.nf_conntrack_max, and spec.kubernetes.kubeProxy.extraConfig.conntrack",
        ],
    ),
    row(
        "disk-space",
        &[],
        &["no space left on device"],
        If::Fresh,
        [
            "a program could not write: no space left on the device",
            "a file system or its inodes were full in the last three minutes",
            "look for the file system that the evidence names",
        ],
    ),
    row(
        "service-network",
        &["kernel"],
        &["UDP: bad checksum"],
        If::Fresh,
        [
            "the kernel drops packets with wrong checksums",
            "the checksum offload of a VXLAN device is defective",
            "turn it off: ethtool -K flannel.1 tx-checksum-ip-generic off",
        ],
    ),
    Pattern {
        least: 3,
        ..row(
            "etcd-disk",
            ETCD,
            &["slow fdatasync"],
            If::Fresh,
            [
                "etcd waits for its disk: fdatasync took longer than 1 s several times",
                "the disk is slow or shared: leaders change, and controllers restart",
                "give etcd a disk of its own, with fsync below 10 ms at the 99th percentile",
            ],
        )
    },
];

impl Pattern {
    fn matches(&self, entry: &LogEntry) -> bool {
        let is_source =
            self.sources.is_empty() || self.sources.iter().any(|name| is_of(&entry.source, name));
        is_source && self.texts.iter().all(|text| entry.message.contains(text))
    }

    fn counts(&self, seen: &Seen, host: &HostName, age: i64) -> bool {
        match self.condition {
            If::Fresh => age <= FRESH,
            If::Unhealthy(program) => seen.is_unhealthy(host, program),
            If::Pods => match seen.nodes_with_troubled_pods() {
                Some(nodes) => nodes.contains(host.as_str()),
                None => age <= FRESH,
            },
            If::Evidence => false,
        }
    }
}

/// Returns whether a source is a unit or a container of the cluster with this name. Only administrators create pods in
/// namespaces that begin with `kube-`: others could log what they want.
fn is_of(source: &str, name: &str) -> bool {
    match source.split_once('/') {
        None => source == name,
        Some((namespace, pod)) => {
            let rest = pod.strip_prefix(name);
            namespace.starts_with("kube-")
                && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        }
    }
}

/// Adds what the logs have to the findings of a check.
pub(super) fn extend(seen: &Seen, check: &str, all: &mut Vec<Found>) {
    for pattern in TABLE.iter().filter(|pattern| pattern.check == check) {
        for (host, logs) in &seen.logs {
            let entries = logs.entries.iter().filter(|entry| pattern.matches(entry));
            let entries: Vec<&LogEntry> = entries.collect();
            let Some(newest) = entries.last().filter(|_| entries.len() >= pattern.least) else {
                continue;
            };
            let lines = entries
                .iter()
                .rev()
                .take(QUOTED)
                .map(|entry| quote(logs, entry));
            let mut known = all
                .iter_mut()
                .filter(|found| found.hosts.is_empty() || found.hosts.contains(host));
            if let Some(found) = known.next() {
                found.add_evidence(lines.take(1));
            } else if pattern.counts(seen, host, age(logs, newest)) {
                let found = Found::new(pattern.what)
                    .on(host)
                    .evidence(lines)
                    .cause(pattern.cause);
                let found = command(seen, host, pattern, newest, found.fix(pattern.fix).likely());
                all.push(found);
            }
        }
    }
}

fn age(logs: &Logs, entry: &LogEntry) -> i64 {
    logs.now.saturating_sub(entry.time.unix_timestamp())
}

fn quote(logs: &Logs, entry: &LogEntry) -> String {
    let age = age(logs, entry).max(0);
    let age = if age < 120 {
        format!("{age} s")
    } else {
        format!("{} min", age / 60)
    };
    format!("{}, {age} ago: {}", entry.source, entry.message.trim())
}

/// Adds the commands of a fix.
fn command(
    seen: &Seen,
    host: &HostName,
    pattern: &Pattern,
    entry: &LogEntry,
    found: Found,
) -> Found {
    let line = &seen.line;
    match pattern.check {
        "kubelet-settings" => settings(seen, host, entry, found),
        "kubelet-credentials" => found.run(line.kubexm(&format!("certs renew --host {host}"))),
        "swap" => found
            .run(line.on(host, "swapoff -a"))
            .run(line.on(host, "systemctl restart kubelet")),
        "cni-leftovers" => found.run(line.on(host, "ip link delete cni0")),
        "disk-space" => found
            .run(line.on(host, "df -h"))
            .run(line.on(host, "df -i")),
        "etcd-disk" => found.run(line.logs("etcd", host)),
        "service-network" => {
            found.run(line.on(host, "ethtool -K flannel.1 tx-checksum-ip-generic off"))
        }
        "kernel-limits" => found.run(line.on(host, "sysctl -w fs.inotify.max_user_instances=8192")),
        "etcd-data" | "etcd-members" => found.run(line.logs("etcd", host)),
        _ => found.run(line.install()),
    }
}

/// Finds the file with the flag that the kubelet does not know.
fn settings(seen: &Seen, host: &HostName, entry: &LogEntry, mut found: Found) -> Found {
    let line = &seen.line;
    let words = entry.message.split([' ', '"', '\'', ',', '=']);
    let flag = words.filter(|word| word.starts_with("--")).find(|word| {
        word.len() > 2
            && word
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    });
    let files = seen
        .hosts
        .get(host)
        .map_or(&[][..], |answers| answers.all("kubelet_flags"));
    if let Some(flag) = flag
        && let Some(entry) = files.iter().find(|entry| entry.contains(flag))
        && let Some((file, text)) = entry.split_once(' ')
    {
        found.certainty = super::report::Certainty::Certain;
        found.add_evidence([format!("{file}: {text}")]);
        let sed = format!(
            "sed -i -E 's/ ?{flag}(=[^ \"]*)?//' {}",
            super::command_line::quoted(file)
        );
        return found
            .run(line.shell(host, &sed))
            .run(line.shell(host, "systemctl daemon-reload; systemctl restart kubelet"));
    }
    found.run(line.logs("kubelet", host)).run(line.install())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_users_are_not_those_of_the_cluster() {
        assert!(is_of("kubelet", "kubelet"));
        assert!(is_of("kube-system/etcd-node1", "etcd"));
        assert!(!is_of("default/etcd-node1", "etcd"));
        assert!(!is_of("kube-system/etcdish-1", "etcd"));
        assert!(!is_of("kubelet2", "kubelet"));
    }
}

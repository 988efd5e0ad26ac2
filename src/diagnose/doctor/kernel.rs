//! Settings of the kernel that a kubelet and a network require.

use super::answers::{Answers, kubelet};
use super::check::{Check, Found, Lasts, Outcome, Source, Topic};
use super::report::Area;
use super::seen::{KUBELET, Seen};
use super::shared;
use kubexm_config::cluster::IpFamily;
use kubexm_types::{FindingKind, HostName};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "swap",
        area: Area::Kernel,
        source: Source::Nodes,
        read: "/proc/swaps, /etc/fstab, swap units of systemd, the agent of Azure, and failSwapOn of the kubelet",
        run: swap,
    },
    Check {
        id: "cgroup",
        area: Area::Kernel,
        source: Source::Nodes,
        read: "the file system at /sys/fs/cgroup, and failCgroupV1 of the kubelet",
        run: cgroup,
    },
    Check {
        id: "kernel-network",
        area: Area::Kernel,
        source: Source::Nodes,
        read: "/proc/sys: forwarding of packets, and whether bridges pass packets to iptables",
        run: network,
    },
    Check {
        id: "kernel-limits",
        area: Area::Kernel,
        source: Source::Nodes,
        read: "/proc/sys: entries of conntrack, inotify; logs of all units",
        run: limits,
    },
];

/// The part of the table of connections, in percent, above which there is a problem.
const CONNTRACK_PERCENT: u64 = 95;
/// The limit of the table of connections.
pub(super) const CONNECTIONS: &str = "net/netfilter/nf_conntrack_max";
/// The limit of inotify instances of a user.
pub(super) const INSTANCES: &str = "fs/inotify/max_user_instances";
/// The limit of files that a user watches by inotify.
pub(super) const WATCHES: &str = "fs/inotify/max_user_watches";

/// Returns what a check finds on nodes that answer.
fn on_nodes(seen: &Seen, judge: impl Fn(&HostName, &Answers) -> Vec<Found>) -> Outcome {
    let nodes = seen.hosts().filter(|(name, _)| seen.cluster.is_node(name));
    let nodes: Vec<_> = nodes.collect();
    if nodes.is_empty() {
        Outcome::Unknown("no node answers".to_owned())
    } else {
        Outcome::Known(
            nodes
                .into_iter()
                .flat_map(|(name, host)| judge(name, host))
                .collect(),
        )
    }
}

fn swap(seen: &Seen) -> Outcome {
    let mut outcome = on_nodes(seen, |host, answers| {
        let devices = answers.all("swap");
        // A kubelet without a configuration gets the settings of the cluster file, and so does one that an install configures.
        let own = kubelet(answers);
        let will_permit = seen.cluster.kubernetes.kubelet.extra_config["failSwapOn"] == false;
        let permits = own
            .as_ref()
            .map_or(will_permit, |own| own.fail_swap_on == Some(false));
        if devices.is_empty() || permits {
            return Vec::new();
        }
        let lasts = (own.is_some() && !will_permit).then(|| Lasts::Without(KUBELET.to_owned()));
        let name = |line: &String| {
            line.split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        let names: Vec<String> = devices.iter().map(name).collect();
        let fstab = answers.all("swap_fstab");
        let units = answers.all("swap_unit");
        let mut found = Found::new(format!("swap is on: {}", names.join(", ")))
            .on(host)
            .lasts(lasts)
            .evidence(devices)
            .evidence(fstab.iter().map(|name| format!("/etc/fstab: {name}")))
            .evidence(units.iter().map(|unit| format!("active unit: {unit}")))
            .cause("a kubelet does not start with swap, unless failSwapOn of its configuration is false; a reboot turns swap on again")
            .fix("turn swap off, also for the next boot")
            .run(seen.line.on(host, "swapoff -a"));
        if !fstab.is_empty() {
            let line = r"sed -i -E 's/^([^#].*\sswap\s)/#\1/' /etc/fstab";
            found = found.run(seen.line.shell(host, line));
        }
        for unit in units {
            let words = format!("systemctl mask {}", kubexm_session::quoting::quoted(unit));
            found = found.run(seen.line.on(host, &words));
        }
        vec![found.run(seen.line.on(host, "systemctl restart kubelet"))]
    });
    if let Outcome::Known(found) = &mut outcome {
        found.extend(shared::find(seen, FindingKind::Swap));
    }
    outcome
}

fn cgroup(seen: &Seen) -> Outcome {
    // Since 1.35, a kubelet refuses cgroups of version 1 by default.
    let version = &seen.cluster.kubernetes.version;
    let refuses = version.major_minor() >= (1, 35);
    on_nodes(seen, |host, answers| {
        let (Some(kind), Some(kubelet)) = (answers.one("cgroup"), kubelet(answers)) else {
            return Vec::new();
        };
        if kind == "cgroup2fs" || !kubelet.fail_cgroup_v1.unwrap_or(refuses) {
            return Vec::new();
        }
        // An install gives the kubelet the settings of the cluster file.
        let will_permit = seen.cluster.kubernetes.kubelet.extra_config["failCgroupV1"] == false;
        let found = Found::new("the host has cgroups of version 1")
            .on(host)
            .lasts((!will_permit).then(|| Lasts::Without(KUBELET.to_owned())))
            .evidence([format!("/sys/fs/cgroup is a file system of the type {kind}")])
            .cause("a kubelet of 1.35 or newer does not start with cgroups of version 1")
            .fix("boot with systemd.unified_cgroup_hierarchy=1, or set failCgroupV1: false in spec.kubernetes.kubelet.extraConfig, and ignorePreflightErrors: [SystemVerification] in spec.kubernetes.kubeadm");
        vec![found.run(seen.line.install())]
    })
}

fn network(seen: &Seen) -> Outcome {
    let pods = &seen.cluster.network.pod_cidr;
    on_nodes(seen, |host, answers| {
        let mut wrong = Vec::new();
        let mut require = |name: &str| match answers.word("sysctl", name) {
            Some("1") => {}
            Some(value) => wrong.push((name.replace('/', "."), value.to_owned())),
            None => wrong.push((name.replace('/', "."), "missing".to_owned())),
        };
        if pods.has(IpFamily::V4) {
            require("net/ipv4/ip_forward");
        }
        if pods.has(IpFamily::V6) {
            require("net/ipv6/conf/all/forwarding");
        }
        require("net/bridge/bridge-nf-call-iptables");
        if wrong.is_empty() {
            return Vec::new();
        }
        let names: Vec<&str> = wrong.iter().map(|(name, _)| name.as_str()).collect();
        let mut found = Found::new(format!("the kernel does not pass packets of pods: {}", names.join(", ")))
            .on(host)
            .evidence(wrong.iter().map(|(name, value)| format!("{name} is {value}, and must be 1")))
            .cause("services and pods of other nodes are not reachable from this node; something changed what the install set")
            .fix("load the module and apply the settings of /etc/sysctl.d/90-kubexm.conf again");
        if wrong
            .iter()
            .any(|(name, value)| name.contains("bridge") && value == "missing")
        {
            found = found.run(seen.line.on(host, "modprobe br_netfilter"));
        }
        vec![found.run(seen.line.on(host, "sysctl -p /etc/sysctl.d/90-kubexm.conf"))]
    })
}

fn limits(seen: &Seen) -> Outcome {
    on_nodes(seen, |host, answers| {
        let (count, most) = (
            number(answers, "net/netfilter/nf_conntrack_count"),
            number(answers, CONNECTIONS),
        );
        let (Some(count), Some(most)) = (count, most) else {
            return Vec::new();
        };
        if count.saturating_mul(100) < most.saturating_mul(CONNTRACK_PERCENT) || most == 0 {
            return Vec::new();
        }
        let found = Found::new(format!(
            "the table of connections has {count} of {most} entries"
        ))
        .on(host)
        .on_topic(Some(Topic::Connections))
        .cause("the kernel drops packets of new connections when the table is full")
        .fix("raise the limit, and spec.kubernetes.kubeProxy.extraConfig.conntrack with it")
        .warning(count < most);
        vec![found.run(raise(seen, host, CONNECTIONS, 0))]
    })
}

/// Returns a setting below /proc/sys.
pub(super) fn number(answers: &Answers, name: &str) -> Option<u64> {
    answers.word("sysctl", name)?.parse().ok()
}

/// Returns the command that doubles a limit below /proc/sys; to `least` if that is more, or if the limit is unknown.
pub(super) fn raise(seen: &Seen, host: &HostName, name: &str, least: u64) -> String {
    let answers = seen.hosts.get(host);
    let present = answers.and_then(|answers| number(answers, name));
    let value = present.unwrap_or_default().saturating_mul(2).max(least);
    let name = name.replace('/', ".");
    seen.line.on(host, &format!("sysctl -w {name}={value}"))
}

//! The table of patterns.

use super::advice::{self, Advice};
use super::{If, Pattern, Topic};

const KUBELET: &[&str] = &["kubelet"];
/// The kubelet, and [`RUNTIMES`](super::RUNTIMES).
const PULLS: &[&str] = &["kubelet", super::RUNTIMES];
const ETCD: &[&str] = &["etcd"];

const fn row(
    check: &'static str,
    sources: &'static [&'static str],
    texts: &'static [&'static str],
    condition: If,
    advice: Advice,
) -> Pattern {
    Pattern {
        check,
        sources,
        texts,
        without: &[],
        least: 1,
        condition,
        topic: None,
        advice,
    }
}

/// What the kernel reports if a file system is full, and if all inotify watches are in use.
const NO_SPACE: &str = "no space left on device";

const fn watches(texts: &'static [&'static str]) -> Pattern {
    Pattern {
        topic: Some(Topic::Watches),
        ..row("kernel-limits", &[], texts, If::Fresh, advice::WATCHES)
    }
}

pub(super) const TABLE: &[Pattern] = &[
    row(
        "swap",
        KUBELET,
        &["running with swap on is not supported"],
        If::Unhealthy("kubelet"),
        advice::SWAP,
    ),
    row(
        "cgroup",
        KUBELET,
        &["cgroup v1", "not"],
        If::Unhealthy("kubelet"),
        advice::CGROUP,
    ),
    row(
        "cgroup-driver",
        KUBELET,
        &["cgroup driver", "is different from"],
        If::Unhealthy("kubelet"),
        advice::TWO_DRIVERS,
    ),
    row(
        "cgroup-driver",
        PULLS,
        &["expected cgroupsPath to be of format"],
        If::Pods,
        advice::FORMER_DRIVER,
    ),
    row(
        "kubelet-settings",
        KUBELET,
        &["unknown flag"],
        If::Unhealthy("kubelet"),
        advice::FLAGS,
    ),
    row(
        "kubelet-settings",
        KUBELET,
        &["failed to parse kubelet flag"],
        If::Unhealthy("kubelet"),
        advice::FLAGS,
    ),
    row(
        "kubelet-settings",
        KUBELET,
        &["unrecognized feature gate"],
        If::Unhealthy("kubelet"),
        advice::FLAGS,
    ),
    row(
        "kubelet-settings",
        KUBELET,
        &["failed to load kubelet config file"],
        If::Unhealthy("kubelet"),
        advice::FLAGS,
    ),
    row(
        "kubelet-settings",
        KUBELET,
        &["failed to validate kubelet configuration"],
        If::Unhealthy("kubelet"),
        advice::FLAGS,
    ),
    row(
        "kubelet-credentials",
        KUBELET,
        &["existing bootstrap client certificate"],
        If::Unhealthy("kubelet"),
        advice::OLD_CREDENTIALS,
    ),
    row(
        "kubelet-credentials",
        KUBELET,
        &["unable to load bootstrap kubeconfig"],
        If::Unhealthy("kubelet"),
        advice::OLD_CREDENTIALS,
    ),
    row(
        "kubelet-credentials",
        KUBELET,
        &["bootstrap-kubelet.conf: no such file"],
        If::Unhealthy("kubelet"),
        advice::OLD_CREDENTIALS,
    ),
    row(
        "runtime",
        KUBELET,
        &["unknown service runtime.v1.RuntimeService"],
        If::Evidence,
        advice::NONE,
    ),
    row(
        "sandbox-image",
        PULLS,
        &["RunPodSandbox", "failed to pull image"],
        If::Pods,
        advice::SANDBOX,
    ),
    row(
        "sandbox-image",
        PULLS,
        &["failed to get sandbox image"],
        If::Pods,
        advice::SANDBOX,
    ),
    row(
        "registry-ca",
        PULLS,
        &["pull", "x509: certificate signed by unknown authority"],
        If::Images,
        advice::UNKNOWN_CA,
    ),
    row(
        "registry-mirrors",
        PULLS,
        &["registry-1.docker.io"],
        If::Images,
        advice::INTERNET,
    ),
    row(
        "registry-mirrors",
        PULLS,
        &["lookup registry.k8s.io"],
        If::Images,
        advice::INTERNET,
    ),
    Pattern {
        topic: Some(Topic::Bridge),
        ..row(
            "cni-leftovers",
            PULLS,
            &["already has an IP address different from"],
            If::Pods,
            advice::OTHER_BRIDGE,
        )
    },
    Pattern {
        topic: Some(Topic::Leases),
        ..row(
            "cni-leftovers",
            PULLS,
            &["no IP addresses available in range"],
            If::Pods,
            advice::NO_ADDRESS,
        )
    },
    row(
        "network-program",
        PULLS,
        &["failed to find plugin"],
        If::Pods,
        advice::NO_PLUGIN,
    ),
    row(
        "runtime-class",
        PULLS,
        &["no runtime for", "is configured"],
        If::Pods,
        advice::NO_HANDLER,
    ),
    row(
        "runtime-class",
        PULLS,
        &["failed to find runtime handler"],
        If::Pods,
        advice::NO_HANDLER,
    ),
    row(
        "runtime-class",
        PULLS,
        &[
            "unable to retrieve OCI runtime error",
            "fork/exec",
            "no such file or directory",
        ],
        If::Pods,
        advice::NO_OCI_RUNTIME,
    ),
    row(
        "dns",
        &["coredns"],
        &["no nameservers found"],
        If::Evidence,
        advice::NONE,
    ),
    row(
        "etcd-alarm",
        &["etcd", "kube-apiserver"],
        &["database space exceeded"],
        If::Evidence,
        advice::NONE,
    ),
    row(
        "etcd-members",
        ETCD,
        &["permanently removed from the cluster"],
        If::Unhealthy("etcd"),
        advice::REMOVED,
    ),
    row(
        "etcd-data",
        ETCD,
        &["crc mismatch"],
        If::Unhealthy("etcd"),
        advice::DATA,
    ),
    row(
        "etcd-data",
        ETCD,
        &["cluster ID mismatch"],
        If::Fresh,
        advice::DATA,
    ),
    row(
        "etcd-data",
        ETCD,
        &["tocommit", "is out of range"],
        If::Unhealthy("etcd"),
        advice::DATA,
    ),
    row(
        "etcd-quorum",
        &["kube-apiserver"],
        &["etcdserver: request timed out"],
        If::Evidence,
        advice::NONE,
    ),
    row(
        "clock",
        ETCD,
        &["clock difference", "too high"],
        If::Evidence,
        advice::NONE,
    ),
    row(
        "webhooks",
        &["kube-apiserver"],
        &["failed calling webhook"],
        If::Evidence,
        advice::NONE,
    ),
    Pattern {
        topic: Some(Topic::FileDescriptors),
        ..row(
            "kernel-limits",
            &[],
            &["too many open files"],
            If::Fresh,
            advice::FILES,
        )
    },
    watches(&["inotify", NO_SPACE]),
    watches(&["inotify", "No space left on device"]),
    watches(&["fsnotify", NO_SPACE]),
    watches(&["failed to watch", NO_SPACE]),
    Pattern {
        topic: Some(Topic::Connections),
        ..row(
            "kernel-limits",
            &["kernel"],
            &["nf_conntrack: table full"],
            If::Fresh,
            advice::CONNECTIONS,
        )
    },
    Pattern {
        without: &["inotify", "fsnotify", "failed to watch"],
        ..row("disk-space", &[], &[NO_SPACE], If::Fresh, advice::NO_SPACE)
    },
    Pattern {
        least: 3,
        ..row(
            "service-network",
            &["kernel"],
            &["UDP: bad checksum"],
            If::Vxlan,
            advice::CHECKSUMS,
        )
    },
    Pattern {
        least: 3,
        ..row(
            "etcd-disk",
            ETCD,
            &["slow fdatasync"],
            If::Fresh,
            advice::SLOW_DISK,
        )
    },
];

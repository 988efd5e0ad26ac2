//! The table of patterns.

use super::{If, Pattern};

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
    "the member was removed by hand, and its host still runs it",
    "empty its data directory, and let an install add it again",
];
const SANDBOX: [&str; 3] = [
    "the sandbox image cannot be pulled",
    "the runtime requires another pause image than the bundle has, or asks the internet for it",
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

pub(super) const TABLE: &[Pattern] = &[
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
        "cgroup-driver",
        PULLS,
        &["expected cgroupsPath to be of format"],
        If::Pods,
        [
            "no new container starts, because the kubelet uses another cgroup driver than the runtime",
            "the kubelet learned the driver from the runtime when it started, and the runtime has changed since",
            "restart the kubelet",
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
        &["RunPodSandbox", "failed to pull image"],
        If::Pods,
        SANDBOX,
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
        If::Images,
        UNKNOWN_CA,
    ),
    row(
        "registry-mirrors",
        PULLS,
        &["registry-1.docker.io"],
        If::Images,
        INTERNET,
    ),
    row(
        "registry-mirrors",
        PULLS,
        &["lookup registry.k8s.io"],
        If::Images,
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

//! Directories that programs of the cluster create and fill, and the names that these programs give to their files.
//! A reset removes what has such a name; it lists everything else and keeps it.

use std::sync::LazyLock;

pub use kubexm_kinds::Content;
use kubexm_kinds::{Directory, PluginKind, RuntimeKind};

const KUBERNETES: &[&str] = &[
    "admin.conf",
    "super-admin.conf",
    "kubelet.conf",
    "bootstrap-kubelet.conf",
    "controller-manager.conf",
    "scheduler.conf",
    "manifests/etcd.yaml",
    "manifests/kube-apiserver.yaml",
    "manifests/kube-controller-manager.yaml",
    "manifests/kube-scheduler.yaml",
    "manifests/kube-vip.yaml",
    "manifests/kubexm-*.yaml",
    "manifests/",
    "pki/ca.crt",
    "pki/ca.key",
    "pki/apiserver.crt",
    "pki/apiserver.key",
    "pki/apiserver-etcd-client.crt",
    "pki/apiserver-etcd-client.key",
    "pki/apiserver-kubelet-client.crt",
    "pki/apiserver-kubelet-client.key",
    "pki/front-proxy-ca.crt",
    "pki/front-proxy-ca.key",
    "pki/front-proxy-client.crt",
    "pki/front-proxy-client.key",
    // kubexm writes it for the time of a rotation.
    "pki/signing-ca.crt",
    "pki/sa.key",
    "pki/sa.pub",
    "pki/etcd/ca.crt",
    "pki/etcd/ca.key",
    "pki/etcd/server.crt",
    "pki/etcd/server.key",
    "pki/etcd/peer.crt",
    "pki/etcd/peer.key",
    "pki/etcd/healthcheck-client.crt",
    "pki/etcd/healthcheck-client.key",
    "pki/etcd/",
    "pki/",
    "tmp/kubeadm-*",
    "tmp/",
];

const KUBELET: &[&str] = &[
    "config.yaml",
    "instance-config.yaml",
    "kubeadm-flags.env",
    "allocated_pods_state",
    "actuated_pods_state",
    "checkpoints",
    "cpu_manager_state",
    "dra_manager_state",
    "memory_manager_state",
    "pod_status_manager_state",
    "device-plugins",
    "image_manager",
    "pki",
    "plugins",
    "plugins_registry",
    "pod-resources",
    "pods",
    "userns",
    // A kubelet that was killed leaves the temporary file of such a state.
    ".[0-9]*",
    "seccomp/",
];

/// Programs of the CNI project. kubexm's own records remove those that it installs.
const CNI_PROGRAMS: &[&str] = &[
    "bin/bandwidth",
    "bin/bridge",
    "bin/dhcp",
    "bin/dummy",
    "bin/firewall",
    "bin/host-device",
    "bin/host-local",
    "bin/install",
    "bin/ipvlan",
    "bin/loopback",
    "bin/macvlan",
    "bin/portmap",
    "bin/ptp",
    "bin/sbr",
    "bin/static",
    "bin/tap",
    "bin/tuning",
    "bin/vlan",
    "bin/vrf",
    "bin/LICENSE",
    "bin/README.md",
];

/// Those, and the programs of network plugins.
static OPT_CNI: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let of_plugins = of_kinds().filter_map(|directory| directory.path.strip_prefix("/opt/cni/"));
    let all = CNI_PROGRAMS.iter().copied().chain(of_plugins);
    all.chain(["bin/"]).collect()
});

/// The files of network plugins in `/etc/cni/net.d`.
static ETC_CNI: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let of_plugins = PluginKind::all_properties().flat_map(|own| own.cni_files);
    of_plugins.copied().chain(["net.d/"]).collect()
});

/// Data of the registry and etcd. Users choose these directories, and those of the runtimes.
const DATA: &[&str] = &[
    // The registry.
    "docker/registry/v2",
    "docker/registry/",
    "docker/",
    ".kubexm-links-*",
    ".kubexm-staging-*",
    // etcd.
    "member",
    "member.before-*",
    "restore-*",
    "snap",
    "wal",
    "tmp",
];

/// Those, and the data of every container runtime.
static ALL_DATA: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let of_runtimes = RuntimeKind::all_properties().flat_map(|own| own.data);
    DATA.iter().chain(of_runtimes).copied().collect()
});

/// Directories and files of container runtimes and network plugins.
fn of_kinds() -> impl Iterator<Item = &'static Directory> {
    let of_runtimes = RuntimeKind::all_properties().flat_map(|own| own.directories);
    of_runtimes.chain(PluginKind::all_properties().flat_map(|own| own.directories))
}

const DIRECTORIES: &[(&str, Content)] = &[
    ("/etc/kubernetes", Content::marked("755", KUBERNETES)),
    ("/etc/kubexm", Content::marked("755", &["*/*/", "*/"])),
    ("/lib/modules", Content::unmarked(&[])),
    (
        "/run/netns",
        Content::unmarked(&[
            "cni-????????-????-????-????-????????????",
            "????????-????-????-????-????????????",
        ]),
    ),
    (
        "/usr/libexec/kubernetes",
        Content::unmarked(&[
            "kubelet-plugins/volume/exec/nodeagent~uds",
            "kubelet-plugins/volume/exec/",
            "kubelet-plugins/volume/",
            "kubelet-plugins/",
        ]),
    ),
    (
        "/var/lib/cni",
        Content::marked("755", &["bin/", "cache", "flannel", "networks", "results"]),
    ),
    // kubeadm refuses a data directory that is not empty. A killed reset leaves its snapshot.
    (
        "/var/lib/etcd",
        Content::unmarked(&[
            "member",
            "member.before-*",
            "restore-*",
            "kubexm-snapshot.db",
            "kubexm-snapshot.db.part",
        ]),
    ),
    // An earlier version of kubexm emptied it when an install was repeated.
    ("/var/lib/kubelet", Content::unmarked(KUBELET)),
    ("/var/log/containers", Content::unmarked(&["*_*_*-*.log"])),
    (
        "/var/log/kubernetes",
        Content::marked("755", &["audit*", "kube-*.log*"]),
    ),
    ("/var/log/pods", Content::unmarked(&["*_*_*"])),
];

/// Directories and files of other programs below `/run`.
const VOLATILE_PATHS: &[&str] = &["/run/kubexm", "/run/nri", "/run/xtables.lock"];

/// Returns what a reset removes from a directory.
pub fn content(path: &str) -> Content {
    known(path).unwrap_or_else(|| Content::marked("711", &ALL_DATA))
}

/// Returns whether the path is one that users do not choose.
pub fn is_known(path: &str) -> bool {
    known(path).is_some()
}

fn known(path: &str) -> Option<Content> {
    let mut all = DIRECTORIES.iter();
    if let Some((_, content)) = all.find(|(known, _)| *known == path) {
        return Some(*content);
    }
    if let Some(directory) = of_kinds().find(|directory| directory.path == path) {
        return Some(directory.content);
    }
    match path {
        "/etc/cni" => Some(Content::marked("755", &ETC_CNI)),
        "/opt/cni" => Some(Content::marked("755", &OPT_CNI)),
        _ if VOLATILE_PATHS.contains(&path) => Some(Directory::volatile("").content),
        // The data of a member of etcd, in a directory that existed before.
        _ if path.ends_with("/member") => Some(Content::unmarked(&["snap", "tmp", "wal"])),
        _ => None,
    }
}

//! Directories that programs of the cluster create and fill, and the names that these programs give to their files.
//! A reset removes what has such a name; it lists everything else and keeps it.

/// What a reset removes from a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// Patterns of paths below the directory, as in a shell. `.` means everything. A pattern that ends with `/`
    /// removes a directory only if it is empty.
    pub patterns: &'static [&'static str],
    /// The mode with which kubexm creates the directory and its marker before any program does; `None` if a
    /// program must create it, because the program refuses or empties a directory with a file, or because the
    /// directory does not survive a restart of the host.
    pub mode: Option<&'static str>,
}

impl Content {
    const fn marked(mode: &'static str, patterns: &'static [&'static str]) -> Self {
        Self {
            patterns,
            mode: Some(mode),
        }
    }

    const fn unmarked(patterns: &'static [&'static str]) -> Self {
        Self {
            patterns,
            mode: None,
        }
    }
}

/// A path below `/run` exists until the next start of the host, so all of its content belongs to the program.
const VOLATILE: Content = Content::unmarked(&["."]);

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

/// Programs of the CNI project, flannel, Calico and Cilium. kubexm's own records remove those that it installs.
const CNI_PROGRAMS: &[&str] = &[
    "bin/bandwidth",
    "bin/bridge",
    "bin/calico",
    "bin/calico-ipam",
    "bin/cilium-cni",
    "bin/dhcp",
    "bin/dummy",
    "bin/firewall",
    "bin/flannel",
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
    "bin/",
];

const CNI_CONFIGURATIONS: &[&str] = &[
    "net.d/05-cilium.conf*",
    "net.d/10-calico.conflist",
    "net.d/10-flannel.conflist",
    "net.d/10-kubexm-bridge.conflist",
    "net.d/calico-kubeconfig",
    "net.d/calico-tls",
    "net.d/*.cilium_bak",
    "net.d/",
];

/// Data of the registry, etcd and every container runtime. Users choose these directories.
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
    // containerd.
    "io.containerd.*",
    "tmpmounts",
    // Docker.
    "buildkit",
    "containerd",
    "containers",
    "engine-id",
    "image",
    "network",
    "nuke-graph-directory.sh",
    "overlay2",
    "plugins",
    "rootfs",
    "runtimes",
    "swarm",
    "trust",
    "volumes",
    // CRI-O, which keeps OCI artifacts in an image layout.
    "artifacts/blobs",
    "artifacts/index.json",
    "artifacts/index.lock",
    "artifacts/oci-layout",
    "artifacts/",
    "defaultNetworkBackend",
    "libpod",
    "mounts",
    "networks",
    "overlay",
    "overlay-containers",
    "overlay-images",
    "overlay-layers",
    "secrets",
    "storage.lock",
    "userns.lock",
    "vfs",
    "vfs-containers",
    "vfs-images",
    "vfs-layers",
    // iSulad.
    "engines",
    "isulad_tmpdir",
    "lcr",
    "mnt",
    "storage",
];

/// The content of a directory that users choose.
const OTHER: Content = Content::marked("711", DATA);

const DIRECTORIES: &[(&str, Content)] = &[
    ("/etc/cni", Content::marked("755", CNI_CONFIGURATIONS)),
    (
        "/etc/containerd",
        Content::marked("755", &["certs.d/*/", "certs.d/"]),
    ),
    (
        "/etc/containers",
        Content::marked("755", &["certs.d/*/", "certs.d/", "registries.conf.d/"]),
    ),
    // CRI-O creates `policies` and `auth` for image policies and logins of namespaces, which belong to the user.
    (
        "/etc/crio",
        Content::marked(
            "755",
            &["crio.conf.d/", "policies/", "auth/in-use/", "auth/"],
        ),
    ),
    (
        "/etc/docker",
        Content::marked("755", &["certs.d/*/", "certs.d/", "key.json"]),
    ),
    (
        "/etc/isulad",
        Content::marked("755", &["certs.d/*/", "certs.d/"]),
    ),
    ("/etc/kubernetes", Content::marked("755", KUBERNETES)),
    ("/etc/kubexm", Content::marked("755", &["*/*/", "*/"])),
    ("/lib/modules", Content::unmarked(&[])),
    ("/opt/cni", Content::marked("755", CNI_PROGRAMS)),
    ("/opt/containerd", Content::marked("711", &["bin/", "lib/"])),
    // Other programs keep the state of their containers here, too.
    ("/run/crun", Content::unmarked(&[])),
    ("/run/runc", Content::unmarked(&[])),
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
        "/usr/share/containers",
        Content::unmarked(&["oci/hooks.d/", "oci/"]),
    ),
    (
        "/var/lib/calico",
        Content::marked("755", &["nodename", "mtu"]),
    ),
    (
        "/var/lib/cilium",
        Content::marked("755", &["bpf", "clustermesh", "state"]),
    ),
    (
        "/var/lib/cni",
        Content::marked("755", &["bin/", "cache", "flannel", "networks", "results"]),
    ),
    ("/var/lib/containerd", Content::marked("711", DATA)),
    (
        "/var/lib/containers",
        Content::marked("755", &["cache", "sigstore", "storage/"]),
    ),
    ("/var/lib/cri-dockerd", Content::marked("755", &["sandbox"])),
    (
        "/var/lib/crio",
        Content::marked(
            "755",
            &["clean.shutdown", "clean.shutdown.supported", "version"],
        ),
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
    (
        "/var/lib/isula",
        Content::marked("755", &["volumes", "mnt"]),
    ),
    // An earlier version of kubexm emptied it when an install was repeated.
    ("/var/lib/kubelet", Content::unmarked(KUBELET)),
    ("/var/log/calico", Content::marked("755", &["cni"])),
    ("/var/log/containers", Content::unmarked(&["*_*_*-*.log"])),
    (
        "/var/log/crio",
        Content::marked("755", &["crio.log", "pods"]),
    ),
    (
        "/var/log/kubernetes",
        Content::marked("755", &["audit*", "kube-*.log*"]),
    ),
    ("/var/log/pods", Content::unmarked(&["*_*_*"])),
];

/// Directories and files of programs below `/run`.
const VOLATILE_PATHS: &[&str] = &[
    "/run/calico",
    "/run/cilium",
    "/run/conmon",
    "/run/containerd",
    "/run/containers",
    "/run/cri-dockerd.sock",
    "/run/crio",
    "/run/docker",
    "/run/docker.pid",
    "/run/docker.sock",
    "/run/flannel",
    "/run/ipcns",
    "/run/isulad",
    "/run/isulad.pid",
    "/run/isulad.sock",
    "/run/kubexm",
    "/run/nodeagent",
    "/run/nri",
    "/run/pidns",
    "/run/userns",
    "/run/utsns",
    "/run/xtables.lock",
];

/// Files that pods of network plugins write. They are removed by name from directories that existed before the install.
const FILES: &[&str] = &[
    "/etc/cni/net.d/05-cilium.conflist",
    "/etc/cni/net.d/10-calico.conflist",
    "/etc/cni/net.d/10-flannel.conflist",
    "/etc/cni/net.d/calico-kubeconfig",
    "/etc/sysctl.d/99-zzz-override_cilium.conf",
    "/opt/cni/bin/calico",
    "/opt/cni/bin/calico-ipam",
    "/opt/cni/bin/cilium-cni",
    "/opt/cni/bin/flannel",
];

/// Returns what a reset removes from a directory.
pub fn content(path: &str) -> Content {
    if let Some((_, content)) = DIRECTORIES.iter().find(|(known, _)| *known == path) {
        return *content;
    }
    match path {
        _ if VOLATILE_PATHS.contains(&path) => VOLATILE,
        _ if FILES.contains(&path) => Content::unmarked(&[]),
        // The data of a member of etcd, in a directory that existed before.
        _ if path.ends_with("/member") => Content::unmarked(&["snap", "tmp", "wal"]),
        _ => OTHER,
    }
}

/// Returns whether the path is one that users do not choose.
pub fn is_known(path: &str) -> bool {
    content(path) != OTHER
}

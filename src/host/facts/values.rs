//! What kubexm knows about a host, as types.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use kubexm_types::{Arch, ClusterIdentity, Digest, GlibcVersion};

/// What kubexm knows about a host. `None` means that the host did not report a value; it never means zero
/// or "no".
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// The machine's architecture as `uname -m` prints it.
    pub machine: String,
    /// The kernel's release, as in `6.1.0-28-amd64`.
    pub kernel: String,
    /// The distribution.
    pub os: Os,
    /// The version of glibc; `None` if the host has another C library.
    pub glibc: Option<GlibcVersion>,
    /// `/etc/machine-id`.
    pub machine_id: Option<String>,
    /// Number of processors.
    pub cpus: Option<u64>,
    /// Memory in KiB.
    pub memory: Option<u64>,
    /// Devices and files that the host swaps to.
    pub swap: Vec<String>,
    /// Version of control groups.
    pub cgroup: Option<Cgroup>,
    /// All addresses of all interfaces.
    pub addresses: BTreeSet<IpAddr>,
    /// Networks that the host reaches without a gateway.
    pub networks: Vec<IpNet>,
    /// First name server in `/etc/resolv.conf`.
    pub nameserver: Option<String>,
    /// TCP ports in use.
    pub listening: BTreeSet<u16>,
    /// Kernel modules that are loaded, built in or available.
    pub modules: BTreeSet<Module>,
    /// Programs that are installed.
    pub tools: BTreeSet<Tool>,
    /// Whether systemd runs.
    pub systemd: bool,
    /// Open ports of firewalld's default zone, as in `6443/tcp`; `None` if firewalld does not run.
    pub firewalld: Option<Vec<String>>,
    /// Whether ufw is enabled.
    pub ufw: bool,
    /// Whether NetworkManager runs.
    pub network_manager: bool,
    /// Whether systemd-networkd runs.
    pub networkd: bool,
    /// SELinux; `None` if the kernel does not have it or it is disabled.
    pub selinux: Option<Selinux>,
    /// Whether SELinux has the policy for containers.
    pub container_selinux: bool,
    /// The paths that [`Facts::gather`] was asked for and that exist.
    pub existing: BTreeSet<String>,
    /// Directories that an install writes and root cannot write, because their file system is read-only.
    pub read_only: BTreeSet<String>,
    /// Disk space at the paths that [`Facts::gather`] was asked for.
    pub disks: BTreeMap<String, Disk>,
    /// Inodes at the paths that [`Facts::gather`] was asked for, without file systems that have no limit.
    pub inodes: BTreeMap<String, Inodes>,
    /// The paths that [`Facts::gather`] was asked for and that root cannot write, because their file system is read-only.
    pub read_only_disks: BTreeSet<String>,
    /// The mount points of `/etc/fstab` at or above the paths that [`Facts::gather`] was asked for, where nothing is mounted.
    pub unmounted: BTreeMap<String, String>,
    /// The sockets of container runtimes that exist.
    pub runtimes: BTreeSet<String>,
    /// Whether kubexm's receipt exists: an install has begun.
    pub receipt: bool,
    /// The cluster that the host belongs to.
    pub cluster: Membership,
    /// Which commands have begun on the cluster, a line of JSON; `None` if the host has no record of it.
    pub begun: Option<String>,
    /// The authorities whose certificates or public keys are on the host, by path.
    pub authorities: BTreeMap<String, Vec<Digest>>,
    /// Certificates of files that no program renews by itself, PEM, by path. The text is empty, or not a certificate, if the
    /// file is damaged.
    pub certificates: BTreeMap<String, String>,
    /// Certificates that the kubelet renews by itself, PEM without their keys, by path. The text is empty for a file without
    /// certificates, and for a link to a file that does not exist.
    pub rotated: BTreeMap<String, String>,
    /// Names in `/etc/hosts` with their addresses, outside of the block that kubexm manages.
    pub hosts_entries: Vec<(IpAddr, String)>,
    /// Whether files of Kubernetes exist.
    pub kubernetes: bool,
    /// Whether `kubeadm init` succeeded.
    pub initialized: bool,
    /// Whether the host joined a cluster or runs the node's programs.
    pub joined: bool,
    /// Whether the host has the files with which the first control plane changes objects of the cluster.
    pub cluster_files: bool,
    /// Whether the etcd that kubexm runs on the host was once complete.
    pub etcd_formed: bool,
    /// Whether all pods have ended for another containerd, and the kubelet has not been started since.
    pub pods_ended: bool,
    /// Settings with which the programs of an installed host run; empty for a host that is not installed.
    pub applied: BTreeMap<Setting, BTreeSet<String>>,
    /// Whether the registry that kubexm runs on the host requires a login; `None` if it runs none there.
    pub registry_login: Option<bool>,
    /// The registries whose images the registry that kubexm runs on the host has, by their directories.
    pub registry_sources: BTreeSet<String>,
    /// Seconds by which the host's clock is ahead of this machine's, as far as the round trip allows.
    pub clock_ahead: f64,
}

/// The cluster that a host belongs to, by its own record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Membership {
    /// The host has no record: it belongs to no cluster, or an earlier version of kubexm installed it.
    #[default]
    Unrecorded,
    /// The host belongs to this cluster.
    Cluster(ClusterIdentity),
    /// The record is damaged.
    Damaged,
}

/// A distribution, by os-release(5).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Os {
    /// `ID`.
    pub id: Option<String>,
    /// `VERSION_CODENAME`.
    pub codename: Option<String>,
    /// `VERSION_ID`.
    pub version: Option<String>,
    /// `ID_LIKE`.
    pub like: Vec<String>,
    /// `PRETTY_NAME`.
    pub name: Option<String>,
}

/// Version of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cgroup {
    /// One hierarchy for each controller.
    V1,
    /// One hierarchy.
    V2,
}

/// The mode of SELinux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selinux {
    /// SELinux denies violations.
    Enforcing,
    /// SELinux logs violations.
    Permissive,
}

/// Inodes of a file system: each file and each directory needs one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inodes {
    /// The number of free inodes.
    pub free: u64,
    /// The number of all inodes, at least 1.
    pub total: u64,
}

/// Space of a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Free KiB.
    pub free: u64,
    /// Size in KiB.
    pub size: u64,
    /// The mount point.
    pub mount: String,
}

/// Declares an enum of names that the script knows.
macro_rules! names {
    ($(#[$about:meta])* $enum:ident { $($variant:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $enum {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl $enum {
            /// Every name that the script can print.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the name that the script prints.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        impl fmt::Display for $enum {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

names! {
    /// A program that kubexm or Kubernetes needs on a host.
    Tool {
        Tar = "tar",
        Gzip = "gzip",
        Sha256sum = "sha256sum",
        Flock = "flock",
        Systemctl = "systemctl",
        AptGet = "apt-get",
        Dnf = "dnf",
        Iptables = "iptables",
        Nft = "nft",
        Conntrack = "conntrack",
        Socat = "socat",
        Ebtables = "ebtables",
        Ipset = "ipset",
        Ethtool = "ethtool",
    }
}

names! {
    /// A kernel module that some clusters need.
    Module {
        Dummy = "dummy",
        IpVs = "ip_vs",
        IpVsRr = "ip_vs_rr",
        IpVsWrr = "ip_vs_wrr",
        IpVsSh = "ip_vs_sh",
        IpVsLc = "ip_vs_lc",
        IpVsWlc = "ip_vs_wlc",
        IpVsFo = "ip_vs_fo",
        IpVsOvf = "ip_vs_ovf",
        IpVsLblc = "ip_vs_lblc",
        IpVsLblcr = "ip_vs_lblcr",
        IpVsDh = "ip_vs_dh",
        IpVsMh = "ip_vs_mh",
        IpVsSed = "ip_vs_sed",
        IpVsNq = "ip_vs_nq",
    }
}

names! {
    /// A setting that an install cannot change on a host where it has been applied.
    Setting {
        KubernetesType = "kubernetesType",
        DnsDomain = "dnsDomain",
        Runtime = "runtime",
        Endpoint = "endpoint",
        Network = "network",
        FlannelBackend = "flannelBackend",
        CalicoEncapsulation = "calicoEncapsulation",
        CiliumRouting = "ciliumRouting",
        NodeName = "nodeName",
        ControlPlane = "controlPlane",
        Version = "version",
        ServiceCidr = "serviceCIDR",
        AdvertiseAddress = "advertiseAddress",
        ApiServerPort = "apiServerPort",
        EtcdServers = "etcdServers",
        Encryption = "encryption",
        PodCidr = "podCIDR",
        ClusterName = "clusterName",
        Etcd = "etcd",
        EtcdDataDir = "etcdDataDir",
        EtcdVersion = "etcdVersion",
        Balancer = "balancer",
    }
}

impl Facts {
    /// Returns the architecture, if kubexm supports it.
    pub fn arch(&self) -> Option<Arch> {
        self.machine.parse().ok()
    }

    /// Returns whether the host is a node of a cluster.
    pub fn is_node(&self) -> bool {
        self.initialized || self.joined
    }

    /// Returns whether the host has a registry of kubexm.
    pub fn has_registry(&self) -> bool {
        self.registry_login.is_some()
    }

    /// Returns the values of a setting with which the programs of the host run.
    pub fn applied(&self, setting: Setting) -> impl Iterator<Item = &str> {
        let values = self.applied.get(&setting).into_iter().flatten();
        values.map(String::as_str)
    }

    /// Returns the names (distribution, release) under which a bundle may have packages for the host, the
    /// most specific first: `ID` with `VERSION_CODENAME`, with the service pack, with `VERSION_ID`, with the major
    /// version. A system like RHEL also has the name `rhel-like` with the major version.
    pub fn releases(&self) -> Vec<(String, String)> {
        let Os {
            id,
            codename,
            version,
            like,
            name,
        } = &self.os;
        let id = id.as_deref().unwrap_or("");
        let version = version.as_deref();
        let major = version.and_then(|version| version.split('.').next());
        let mut names: Vec<(String, String)> = Vec::new();
        let pack = name.as_deref().and_then(|name| service_pack(id, name));
        let specific = [codename.as_deref(), pack.as_deref(), version, major];
        for release in specific.into_iter().flatten() {
            names.push((id.to_owned(), release.to_owned()));
        }
        // Oracle Linux reports only that it is like Fedora.
        let is_rhel = ["rhel", "ol"].contains(&id) || like.iter().any(|other| other == "rhel");
        if let (true, Some(major)) = (is_rhel, major) {
            names.push(("rhel-like".to_owned(), major.to_owned()));
        }
        names.dedup();
        names
    }
}

/// Returns the release of openEuler with its service pack, as in `24.03-LTS-SP3`, from `PRETTY_NAME`
/// (`openEuler 24.03 (LTS-SP3)`). `VERSION_ID` is the same for all service packs, and their repositories differ.
fn service_pack(id: &str, name: &str) -> Option<String> {
    let (version, pack) = name
        .strip_prefix("openEuler ")
        .filter(|_| id == "openEuler")?
        .strip_suffix(')')?
        .split_once(" (")?;
    Some(format!("{version}-{pack}"))
}

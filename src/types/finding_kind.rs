//! Kinds of findings.

use serde::Serialize;

macro_rules! kinds {
    ($($kind:ident: $about:literal)*) => {
        /// The subject of a finding. Its name in JSON is stable; a check of doctor with the same subject has the same name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum FindingKind {
            $(#[doc = $about] $kind,)*
        }

        impl FindingKind {
            /// Every kind, in the order of the names.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// Returns what a finding of this kind is about.
            pub fn about(self) -> &'static str {
                match self {
                    $(Self::$kind => $about,)*
                }
            }
        }
    };
}

kinds! {
    Address: "Addresses of the interfaces."
    ApiServer: "The API server of the host."
    Architecture: "The architecture of the machine, and what the bundle has for it."
    Certificates: "Certificates: their validity and their names."
    Cgroup: "The version of control groups."
    Clock: "The clock, compared with that of this machine."
    Cluster: "The cluster to which the host belongs."
    CniLeftovers: "Network configurations of other programs and of earlier clusters."
    Cpus: "The CPUs of a control plane."
    DiskSpace: "The space of file systems."
    DnsCache: "What the DNS cache of nodes requires."
    DnsServers: "Name servers of the host."
    Etcd: "An etcd that kubexm does not run, or the members that it runs."
    EtcdData: "The data directory of etcd."
    FileSystems: "Directories: whether they can be written, and what is mounted there."
    Firewall: "Firewalls and SELinux."
    FixedSetting: "A setting that an install cannot change."
    Host: "Whether the host answers."
    HostNames: "Lines of `/etc/hosts`."
    KernelSettings: "Settings of the kernel, and what the next boot makes of them."
    KubeProxy: "What the mode of kube-proxy requires."
    Leftovers: "What another installation left."
    LoadBalancer: "The endpoint of the API servers."
    Lock: "A command that works on the host at the same time."
    MachineId: "The machine-id, which each host has for itself."
    Membership: "Which hosts are in the cluster, and with which roles."
    Memory: "The memory of a control plane."
    MountOptions: "Options of file systems."
    Node: "The state of the node."
    Packages: "Packages of the distribution."
    Pods: "Pods that do not permit what the command does to their nodes."
    Ports: "Ports that the cluster needs."
    Programs: "Programs that kubexm and Kubernetes run."
    Proxies: "Proxies in the environment of units."
    Registry: "A registry and its images."
    Routes: "Routes to other hosts and to services."
    Settings: "Settings that programs of another version refuse."
    Swap: "Swap."
    Systemd: "The init system."
    Versions: "Which versions can follow each other."
    Volumes: "Volumes whose data is on one host."
}

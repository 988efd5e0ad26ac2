//! What entries of logs mean, and what to do.

use super::remedy::Remedy;

/// The texts of a finding, and the commands of its fix.
#[derive(Debug, Clone, Copy)]
pub(super) struct Advice {
    pub(super) what: &'static str,
    pub(super) cause: &'static str,
    pub(super) fix: &'static str,
    pub(super) remedy: Remedy,
}

const fn advice(
    remedy: Remedy,
    what: &'static str,
    cause: &'static str,
    fix: &'static str,
) -> Advice {
    Advice {
        what,
        cause,
        fix,
        remedy,
    }
}

/// Of entries that are only evidence.
pub(super) const NONE: Advice = advice(Remedy::Install, "", "", "");

pub(super) const SWAP: Advice = advice(
    Remedy::SwapOff,
    "the kubelet does not start with swap",
    "a reboot or a unit turned swap on",
    "turn swap off, also in /etc/fstab and among the units of systemd",
);
pub(super) const CGROUP: Advice = advice(
    Remedy::Install,
    "the kubelet does not start with cgroups of version 1",
    "a kubelet of 1.35 or newer refuses them",
    "boot with systemd.unified_cgroup_hierarchy=1, or set failCgroupV1: false and ignorePreflightErrors: [SystemVerification]",
);
pub(super) const TWO_DRIVERS: Advice = advice(
    Remedy::Install,
    "the kubelet and the runtime have different cgroup drivers",
    "one of both configurations was changed",
    "write the configuration of the install again",
);
pub(super) const FORMER_DRIVER: Advice = advice(
    Remedy::RestartKubelet,
    "no new container starts, because the kubelet uses another cgroup driver than the runtime",
    "the kubelet learned the driver from the runtime when it started, and the runtime has changed since",
    "restart the kubelet",
);
pub(super) const FLAGS: Advice = advice(
    Remedy::RemoveFlag,
    "the kubelet refuses its flags or its configuration",
    "the program does not know a flag, a feature gate or a field, as after an upgrade",
    "remove what the evidence names from the file that has it, then restart the kubelet",
);
pub(super) const OLD_CREDENTIALS: Advice = advice(
    Remedy::RenewKubelet,
    "the kubelet cannot log in to the API server",
    "its client certificate has expired or is missing, and its bootstrap token is of the past",
    "renew the kubelet's credentials with `kubexm certs renew --host`",
);
pub(super) const SANDBOX: Advice = advice(
    Remedy::Install,
    "the sandbox image cannot be pulled",
    "the runtime requires another pause image than the bundle has, or asks the internet for it",
    "compare it with `kubeadm config images list`, and write the configuration of the install again",
);
pub(super) const UNKNOWN_CA: Advice = advice(
    Remedy::Install,
    "pulls fail, because the certificate of a registry is not accepted",
    "the CA of the registry is not in the hosts.toml of this name",
    "write the configuration of the install again",
);
pub(super) const INTERNET: Advice = advice(
    Remedy::Install,
    "the runtime asks registries of the internet",
    "the mirror does not have the image, or is not configured for this name",
    "add the image to the bundle; write the configuration of the install again",
);
pub(super) const OTHER_BRIDGE: Advice = advice(
    Remedy::ShowBridges,
    "new pods get no address: the bridge of the node has one of another subnet",
    "the bridge is left from an earlier cluster, or the subnet of the node has changed",
    "remove the other address from the bridge: the next pod gives it the one that the evidence names",
);
pub(super) const NO_ADDRESS: Advice = advice(
    Remedy::CountLeases,
    "new pods get no address: the subnet of the node has no free one",
    "more pods run on the node than its subnet has addresses, or leases of pods that no longer exist use them up",
    "lower maxPods in spec.kubernetes.kubelet.extraConfig; for nodes that join later, give each a larger subnet by a smaller node-cidr-mask-size in spec.kubernetes.controllerManager.extraArgs",
);
pub(super) const NO_HANDLER: Advice = advice(
    Remedy::Install,
    "pods of a RuntimeClass do not start: the container runtime does not have its handler",
    "the configuration of the runtime does not name the handler, or the runtime has not started since",
    "add the handler to spec.containerRuntime.runtimes of the cluster file, and write the configuration of the install again",
);
pub(super) const NO_OCI_RUNTIME: Advice = advice(
    Remedy::Install,
    "pods do not start: the program of their RuntimeClass is not on the node",
    "the container runtime has the handler, and the path of spec.containerRuntime.runtimes does not exist",
    "install the program that the evidence names; if it has another path, correct the cluster file and write the configuration again",
);
pub(super) const NO_PLUGIN: Advice = advice(
    Remedy::Install,
    "a CNI plugin is missing",
    "the programs in /opt/cni/bin were removed",
    "write the files of the install again",
);
pub(super) const REMOVED: Advice = advice(
    Remedy::NewMember,
    "the member was removed from its cluster",
    "the member was removed by hand, and its host still runs it",
    "empty its data directory, and let an install add it again",
);
pub(super) const DATA: Advice = advice(
    Remedy::NewMember,
    "etcd refuses the data of this member",
    "files are damaged, or of another cluster: after a power failure, a full disk, or a copy",
    "remove the member, empty its data directory, and let an install add it again; the others have the data",
);
pub(super) const SLOW_DISK: Advice = advice(
    Remedy::ReadEtcd,
    "etcd waits for its disk: fdatasync took longer than 1 s several times",
    "the disk is slow or shared: leaders change, and controllers restart",
    "give etcd a disk of its own, with fsync below 10 ms at the 99th percentile",
);
pub(super) const FILES: Advice = advice(
    Remedy::MoreInstances,
    "programs have no more file descriptors or inotify instances",
    "a limit of the kernel is too small for the number of pods",
    "raise fs.inotify.max_user_instances, also in spec.system.sysctl",
);
pub(super) const WATCHES: Advice = advice(
    Remedy::MoreWatches,
    "programs cannot watch more files: all inotify watches are in use",
    "the kernel reports the limit as 'no space left on device', although the disk is not full",
    "raise fs.inotify.max_user_watches, also in spec.system.sysctl",
);
pub(super) const CONNECTIONS: Advice = advice(
    Remedy::MoreConnections,
    "the table of connections is full",
    "the kernel drops packets of new connections",
    "raise net.netfilter.nf_conntrack_max, and spec.kubernetes.kubeProxy.extraConfig.conntrack",
);
pub(super) const NO_SPACE: Advice = advice(
    Remedy::ShowDisks,
    "a program could not write: no space left on the device",
    "a file system or its inodes were full in the last three minutes",
    "look for the file system that the evidence names",
);
pub(super) const CHECKSUMS: Advice = advice(
    Remedy::NoOffload,
    "the kernel drops packets of the pod network with wrong checksums",
    "the checksum offload of the VXLAN device of the host that sends them is defective",
    "turn the offload off; if that helps, do it at each boot by a unit or a rule of udev",
);

//! Values of `type` fields with names, and those that are not of one section.

use kubexm_kinds::named_kinds;

/// Former names of values, each with the name that replaced it. Files may still contain the former name;
/// it has the same meaning, and the reader reports it with a notice.
pub(crate) type FormerNames = &'static [(&'static str, &'static str)];

/// Former values of `kubernetes.type` and `etcd.type`.
pub(crate) const FORMER_SYSTEMD: FormerNames = &[("kubexm", "systemd")];

named_kinds! {
    /// How the programs of Kubernetes run: values of `spec.kubernetes.type`.
    KubernetesKind {
        /// Static pods and a DaemonSet that kubeadm creates.
        Kubeadm = "kubeadm",
        /// systemd units, with certificates that kubexm issues.
        Systemd = "systemd",
    }
}

named_kinds! {
    /// How the runtime and the kubelet limit the resources of containers
    /// (<https://kubernetes.io/docs/setup/production-environment/container-runtimes/#cgroup-drivers>).
    CgroupDriver {
        Systemd = "systemd",
        /// Without systemd, on cgroup v1 hosts that need it.
        Cgroupfs = "cgroupfs",
    }
}

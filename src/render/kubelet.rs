//! The unit of the kubelet.

use askama::Template;

/// Files with `KUBELET_EXTRA_ARGS`, which an administrator writes: those of kubeadm's packages for Debian and RHEL.
pub const OWN_FLAGS: [&str; 2] = ["/etc/default/kubelet", "/etc/sysconfig/kubelet"];

/// `/etc/systemd/system/kubelet.service`.
#[derive(Template)]
#[template(path = "kubelet/kubelet.service")]
pub struct Service {
    /// The program. Without a drop-in it includes the flags.
    pub command: String,
    /// The unit of the container runtime.
    pub runtime: String,
    /// The files that may have `KUBELET_EXTRA_ARGS`. With a drop-in, they are in the drop-in.
    pub own_flags: &'static [&'static str],
}

/// `/etc/systemd/system/kubelet.service.d/10-kubeadm.conf`.
#[derive(Template)]
#[template(path = "kubelet/10-kubeadm.conf")]
pub struct DropIn {
    /// Path of the kubelet.
    pub binary: String,
    /// Whether the kubelet gets the `resolv.conf` of its host; otherwise that of the cluster file.
    pub finds_resolv_conf: bool,
    /// The files that may have `KUBELET_EXTRA_ARGS`.
    pub own_flags: &'static [&'static str],
}

//! The unit of the kubelet.

use askama::Template;

/// `/etc/systemd/system/kubelet.service`.
#[derive(Template)]
#[template(path = "kubelet/kubelet.service")]
pub struct Service {
    /// The program. Without a drop-in it includes the flags.
    pub command: String,
    /// The unit of the container runtime.
    pub runtime: String,
}

/// `/etc/systemd/system/kubelet.service.d/10-kubeadm.conf`.
#[derive(Template)]
#[template(path = "kubelet/10-kubeadm.conf")]
pub struct DropIn {
    /// Path of the kubelet.
    pub binary: String,
}

//! The kubelet's unit.

use askama::Template;

/// `/etc/systemd/system/kubelet.service`.
#[derive(Template)]
#[template(path = "kubelet/kubelet.service")]
pub struct Service {
    /// The program, with its flags where no drop-in gives them.
    pub command: String,
    /// The container runtime's unit.
    pub runtime: String,
}

/// `/etc/systemd/system/kubelet.service.d/10-kubeadm.conf`.
#[derive(Template)]
#[template(path = "kubelet/10-kubeadm.conf")]
pub struct DropIn {
    /// The program.
    pub binary: String,
}

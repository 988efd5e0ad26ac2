//! iSulad's configuration and unit.

use askama::Template;

use super::filters;

/// `/etc/isulad/daemon.json`
/// (<https://gitee.com/openeuler/lcr/blob/master/src/json/schema/isulad-daemon-configs.json>).
#[derive(Template)]
#[template(path = "isulad/daemon.json", escape = "none")]
pub struct Daemon {
    /// Whether the cgroup driver is systemd.
    pub systemd_cgroup: bool,
    /// The directory of images and containers.
    pub graph: String,
    /// Address of the CRI socket.
    pub socket: String,
    /// The pause image that kubeadm expects.
    pub sandbox_image: String,
    /// The directory of CNI plugins.
    pub cni_bin: String,
    /// Registries whose certificates are not verified.
    pub insecure: Vec<String>,
}

/// `/etc/systemd/system/isulad.service`.
#[derive(Template)]
#[template(path = "isulad/isulad.service")]
pub struct Service {
    /// Hosts and networks that iSulad connects to without a proxy, separated by commas.
    pub reachable: String,
}

//! iSulad.

use askama::Template;

use super::filters;

/// `/etc/isulad/daemon.json`, by the fields of
/// <https://gitee.com/openeuler/lcr/blob/master/src/json/schema/isulad-daemon-configs.json>.
#[derive(Template)]
#[template(path = "isulad/daemon.json", escape = "none")]
pub struct Daemon {
    /// Where images and containers are.
    pub graph: String,
    /// The CRI socket's address.
    pub socket: String,
    /// kubeadm's pause image.
    pub sandbox_image: String,
    /// Folder of CNI plugins.
    pub cni_bin: String,
}

/// `/etc/systemd/system/isulad.service`.
#[derive(Template)]
#[template(path = "isulad/isulad.service")]
pub struct Service {
    /// What it reaches without a proxy, by commas.
    pub reachable: String,
}

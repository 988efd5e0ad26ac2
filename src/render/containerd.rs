//! containerd and what it needs to find the local registry.

use askama::Template;

use super::filters;

/// `/etc/containerd/config.toml` for containerd 2.
#[derive(Template)]
#[template(path = "containerd/config-v3.toml")]
pub struct ConfigV3 {
    /// kubeadm's pause image.
    pub sandbox_image: String,
    /// `/etc/containerd/certs.d`.
    pub registry_config_dir: String,
    /// runc.
    pub runc: String,
}

/// `/etc/containerd/config.toml` for containerd 1.7.
#[derive(Template)]
#[template(path = "containerd/config-v2.toml")]
pub struct ConfigV2 {
    /// kubeadm's pause image.
    pub sandbox_image: String,
    /// `/etc/containerd/certs.d`.
    pub registry_config_dir: String,
    /// runc.
    pub runc: String,
}

/// `/etc/containerd/certs.d/<source>/hosts.toml`.
#[derive(Template)]
#[template(path = "containerd/hosts.toml")]
pub struct Hosts {
    /// The registry whose images come from the local one.
    pub source: String,
    /// The first of `urls`, which containerd asks when all have failed.
    pub server: String,
    /// Addresses with the repository prefix of that registry, in the order in which they are asked.
    pub urls: Vec<String>,
    /// CA certificate file; `None` where the system's CAs know it.
    pub ca: Option<String>,
    /// Value of the `Authorization` header. Secret.
    pub authorization: Option<String>,
}

/// `/etc/systemd/system/containerd.service`.
#[derive(Template)]
#[template(path = "containerd/containerd.service")]
pub struct Service {
    /// The program.
    pub binary: String,
    /// Its configuration file.
    pub config: String,
}

/// `/etc/crictl.yaml`.
#[derive(Template)]
#[template(path = "containerd/crictl.yaml")]
pub struct Crictl {
    /// The CRI socket's address.
    pub socket: String,
}

//! containerd.

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

/// `/etc/systemd/system/containerd.service`.
#[derive(Template)]
#[template(path = "containerd/containerd.service")]
pub struct Service {
    /// The program.
    pub binary: String,
    /// Its configuration file.
    pub config: String,
}

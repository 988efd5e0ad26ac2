//! containerd's configuration and unit.

use askama::Template;

use super::cri::OciRuntime;
use super::filters;

/// `/etc/containerd/config.toml` for containerd 2.
#[derive(Template)]
#[template(path = "containerd/config-v3.toml")]
pub struct ConfigV3 {
    /// The pause image that kubeadm expects.
    pub sandbox_image: String,
    /// The directory of `hosts.toml` files, `/etc/containerd/certs.d`.
    pub registry_config_dir: String,
    /// Path of runc.
    pub runc: String,
    /// Whether the cgroup driver is systemd.
    pub systemd_cgroup: bool,
    /// Runtimes besides runc.
    pub others: Vec<OciRuntime>,
}

/// `/etc/containerd/config.toml` for containerd 1.7.
#[derive(Template)]
#[template(path = "containerd/config-v2.toml")]
pub struct ConfigV2 {
    /// The pause image that kubeadm expects.
    pub sandbox_image: String,
    /// The directory of `hosts.toml` files, `/etc/containerd/certs.d`.
    pub registry_config_dir: String,
    /// Path of runc.
    pub runc: String,
    /// Whether the cgroup driver is systemd.
    pub systemd_cgroup: bool,
    /// Runtimes besides runc.
    pub others: Vec<OciRuntime>,
}

/// `/etc/systemd/system/containerd.service`.
#[derive(Template)]
#[template(path = "containerd/containerd.service")]
pub struct Service {
    /// Path of containerd.
    pub binary: String,
    /// Path of the configuration file.
    pub config: String,
}

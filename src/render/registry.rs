//! The local registry.

use askama::Template;

use super::filters;

/// `/etc/kubexm/registry/config.yml`.
#[derive(Template)]
#[template(path = "registry/config.yml")]
pub struct Config {
    /// Where blobs are.
    pub data_dir: String,
    /// Address and port.
    pub listen: String,
    /// Certificate file.
    pub certificate: String,
    /// Key file.
    pub key: String,
}

/// `/etc/systemd/system/kubexm-registry.service`.
#[derive(Template)]
#[template(path = "registry/kubexm-registry.service")]
pub struct Service {
    /// The program.
    pub binary: String,
    /// Its configuration file.
    pub config: String,
    /// Whether its port is one that only root, or a capability, may open (below 1024).
    pub privileged_port: bool,
}

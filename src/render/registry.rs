//! The local registry.

use askama::Template;

use super::filters;

/// `/etc/kubexm/registry/config.yml`.
#[derive(Template)]
#[template(path = "registry/config.yml")]
pub struct Config {
    /// The directory of the data.
    pub data_dir: String,
    /// `address:port` that the registry listens on.
    pub listen: String,
    /// Path of the certificate.
    pub certificate: String,
    /// Path of the key.
    pub key: String,
}

/// `/etc/systemd/system/kubexm-registry.service`.
#[derive(Template)]
#[template(path = "registry/kubexm-registry.service")]
pub struct Service {
    /// Path of the registry.
    pub binary: String,
    /// Path of the [`Config`].
    pub config: String,
    /// Whether the port is below 1024, so that the registry needs a capability.
    pub privileged_port: bool,
}

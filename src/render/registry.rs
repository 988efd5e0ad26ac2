//! The local registry.

use askama::Template;

use super::filters;

/// `/etc/kubexm/registry/config.yml`.
#[derive(Template)]
#[template(path = "registry/config.yml")]
pub struct Config {
    /// The directory of the data, as the registry sees it.
    pub data_dir: String,
    /// `address:port` that the registry listens on.
    pub listen: String,
    /// Path of the certificate.
    pub certificate: String,
    /// Path of the key.
    pub key: String,
    /// Path of the file of users; `None` to let every client pull.
    pub users: Option<String>,
}

/// `/etc/systemd/system/kubexm-registry.service`.
#[derive(Template)]
#[template(path = "registry/kubexm-registry.service")]
pub struct Service {
    /// The user that runs the registry, and its group.
    pub user: String,
    /// The directory of the data. `%` is doubled, because systemd replaces specifiers.
    pub data_dir: String,
    /// The directory of the images in `data_dir`. `%` is doubled.
    pub images: String,
    /// kubexm's directory, which the registry does not see.
    pub own_dir: String,
    /// Where the registry sees the images, in `own_dir`.
    pub mounted_images: String,
    /// Path of the registry.
    pub binary: String,
    /// Path of the [`Config`].
    pub config: String,
    /// Whether the port is below 1024, so that the registry needs a capability.
    pub privileged_port: bool,
}

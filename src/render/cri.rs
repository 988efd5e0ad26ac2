//! What container runtimes have in common.

use askama::Template;

use super::filters;

/// `/etc/crictl.yaml`.
#[derive(Template)]
#[template(path = "cri/crictl.yaml")]
pub struct Crictl {
    /// The CRI socket's address.
    pub socket: String,
}

/// `hosts.toml` below `certs.d/<registry>`, which containerd and Docker read.
#[derive(Template)]
#[template(path = "cri/hosts.toml")]
pub struct Hosts {
    /// The registry whose images come from the local one.
    pub source: String,
    /// Address with the repository prefix of that registry.
    pub url: String,
    /// CA certificate file.
    pub ca: String,
}

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
    /// The first of `urls`, which is asked when all have failed.
    pub server: String,
    /// Addresses with the repository prefix of that registry, in the order in which they are asked.
    pub urls: Vec<String>,
    /// CA certificate file; `None` where the system's CAs know it.
    pub ca: Option<String>,
    /// Value of the `Authorization` header. Secret.
    pub authorization: Option<String>,
}

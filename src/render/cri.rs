//! Configuration that container runtimes share.

use askama::Template;

use super::filters;

/// `/etc/crictl.yaml`.
#[derive(Template)]
#[template(path = "cri/crictl.yaml")]
pub struct Crictl {
    /// Address of the CRI socket.
    pub socket: String,
}

/// An OCI runtime that the configuration of a container runtime names.
pub struct OciRuntime {
    /// The handler.
    pub name: String,
    /// Path of the program.
    pub program: String,
}

/// Runtime classes of Kubernetes.
#[derive(Template)]
#[template(path = "cri/runtime-classes.yaml")]
pub struct RuntimeClasses {
    pub classes: Vec<RuntimeClass>,
}

/// A runtime class, whose handler has the same name.
pub struct RuntimeClass {
    pub name: String,
    /// The labels of the nodes on which its pods run; empty for all nodes.
    pub node_selector: Vec<(String, String)>,
}

/// `hosts.toml` below `certs.d/<registry>`, which containerd and Docker read.
#[derive(Template)]
#[template(path = "cri/hosts.toml")]
pub struct Hosts {
    /// The registry whose images come from the local one.
    pub source: String,
    /// The first of `urls`. The runtime tries it last.
    pub server: String,
    /// URLs with the repository prefix of that registry, in the order in which the runtime tries them.
    pub urls: Vec<String>,
    /// Path of the CA certificate; `None` to use the system's CAs.
    pub ca: Option<String>,
    /// The value of the `Authorization` header. Secret.
    pub authorization: Option<String>,
}

/// `hosts.toml` of a registry of the site.
#[derive(Template)]
#[template(path = "cri/site-hosts.toml")]
pub struct SiteHosts {
    /// The registry, as image names have it.
    pub source: String,
    /// Its servers, in the order in which the runtime tries them.
    pub hosts: Vec<SiteHost>,
    /// The server that the runtime tries last.
    pub last: SiteHost,
}

/// A server of a registry.
#[derive(Clone)]
pub struct SiteHost {
    /// `scheme://host:port`, with a path if `override_path` is set.
    pub url: String,
    /// Path of the CA certificate; `None` to use the system's CAs.
    pub ca: Option<String>,
    /// Whether the certificate is not verified.
    pub skip_verify: bool,
    /// Whether `url` contains the prefix of all repositories.
    pub override_path: bool,
    /// The value of the `Authorization` header. Secret.
    pub authorization: Option<String>,
}

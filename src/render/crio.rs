//! CRI-O, and where it finds images.

use askama::Template;

use super::filters;

/// `/etc/crio/crio.conf.d/10-kubexm.conf`.
#[derive(Template)]
#[template(path = "crio/10-kubexm.conf", escape = "none")]
pub struct Config {
    /// Where images and containers are.
    pub root: String,
    /// Path of the CRI socket.
    pub socket: String,
    /// The program that makes namespaces.
    pub pinns: String,
    /// The OCI runtime.
    pub crun: String,
    /// Another one, for those who ask for it.
    pub runc: String,
    /// What watches over a container.
    pub conmon: String,
    /// kubeadm's pause image.
    pub sandbox_image: String,
    /// Images that the kubelet's garbage collection spares.
    pub pinned_images: Vec<String>,
    /// Which images may run.
    pub policy: String,
    /// Folder of CNI plugins.
    pub cni_bin: String,
    /// File of logins.
    pub logins: Option<String>,
}

/// `/etc/systemd/system/crio.service`.
#[derive(Template)]
#[template(path = "crio/crio.service")]
pub struct Service {
    /// The program.
    pub binary: String,
    /// What it reaches without a proxy, by commas.
    pub reachable: String,
}

/// `/etc/containers/registries.conf.d/10-kubexm.conf`.
#[derive(Template)]
#[template(path = "crio/registries.conf", escape = "none")]
pub struct Registries {
    /// Registries that the bundle has images of.
    pub registries: Vec<Moved>,
}

/// `/etc/crio/logins.json`.
#[derive(Template)]
#[template(path = "crio/logins.json", escape = "none")]
pub struct Logins {
    /// The registries.
    pub registries: Vec<String>,
    /// User and password, in base64. Secret.
    pub login: String,
}

/// A registry whose images are somewhere else.
pub struct Moved {
    /// How images' names begin.
    pub prefix: String,
    /// What stands there instead.
    pub location: String,
    /// What is asked before that.
    pub before: Vec<String>,
}

/// `/etc/crio/policy.json`: images of these registries alone may be pulled. What they must be is
/// known from the bundle's digests, over the local registry's TLS
/// (<https://github.com/containers/image/blob/main/docs/containers-policy.json.5.md>).
#[derive(Template)]
#[template(path = "crio/policy.json", escape = "none")]
pub struct Policy {
    /// The registries.
    pub registries: Vec<String>,
}

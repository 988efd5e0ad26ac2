//! CRI-O's configuration and unit.

use std::collections::BTreeMap;

use askama::Template;

use super::cri::OciRuntime;
use super::filters;

/// `/etc/crio/crio.conf.d/10-kubexm.conf`.
#[derive(Template)]
#[template(path = "crio/10-kubexm.conf", escape = "none")]
pub struct Config {
    /// `systemd` or `cgroupfs`.
    pub cgroup_driver: String,
    /// The directory of images and containers.
    pub root: String,
    /// Path of the CRI socket.
    pub socket: String,
    /// Path of pinns, which creates namespaces.
    pub pinns: String,
    /// Path of crun, the default OCI runtime.
    pub crun: String,
    /// Path of runc, an OCI runtime that pods can select.
    pub runc: String,
    /// Path of conmon, which monitors a container.
    pub conmon: String,
    /// Runtimes besides these two.
    pub others: Vec<OciRuntime>,
    /// The pause image that kubeadm expects.
    pub sandbox_image: String,
    /// Images that the kubelet's garbage collection keeps.
    pub pinned_images: Vec<String>,
    /// Path of the [`Policy`].
    pub policy: String,
    /// The directory of CNI plugins.
    pub cni_bin: String,
    /// Path of the [`Logins`].
    pub logins: Option<String>,
}

/// `/etc/systemd/system/crio.service`.
#[derive(Template)]
#[template(path = "crio/crio.service")]
pub struct Service {
    /// Path of crio.
    pub binary: String,
    /// Hosts and networks that CRI-O connects to without a proxy, separated by commas.
    pub reachable: String,
}

/// `/etc/containers/registries.conf.d/10-kubexm.conf`.
#[derive(Template)]
#[template(path = "crio/registries.conf", escape = "none")]
pub struct Registries {
    /// The registries of the bundle's images, and of the site.
    pub registries: Vec<RegistryLocation>,
    /// Whether there are registries of the site.
    pub has_sites: bool,
}

/// The location of a registry's images.
pub struct RegistryLocation {
    /// The prefix of image names.
    pub prefix: String,
    /// The location that replaces the prefix.
    pub location: Location,
    /// Locations that CRI-O tries first, in this order.
    pub before: Vec<Location>,
}

/// A server, with a prefix of all repositories.
pub struct Location {
    /// `host:port`, or `host:port/prefix`.
    pub address: String,
    /// Whether its certificate is not verified, and plain HTTP is accepted.
    pub insecure: bool,
}

/// `/etc/crio/logins.json`
/// (<https://github.com/containers/image/blob/main/docs/containers-auth.json.5.md>).
#[derive(Template)]
#[template(path = "crio/logins.json", escape = "none")]
pub struct Logins {
    /// User and password in base64 for `host:port` of each registry. Secret.
    pub logins: BTreeMap<String, String>,
}

/// `/etc/crio/policy.json`: only images of these registries may be pulled. The digests of the bundle and the
/// TLS connection to the local registry protect their content
/// (<https://github.com/containers/image/blob/main/docs/containers-policy.json.5.md>).
#[derive(Template)]
#[template(path = "crio/policy.json", escape = "none")]
pub struct Policy {
    /// The prefixes of image names.
    pub registries: Vec<String>,
}

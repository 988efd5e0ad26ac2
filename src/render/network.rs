//! Network plugins.

use askama::Template;

use super::filters;

/// flannel's manifest.
#[derive(Template)]
#[template(path = "network/flannel.yaml")]
pub struct Flannel {
    /// flanneld's image.
    pub image: String,
    /// The CNI plugin's image.
    pub plugin_image: String,
    /// `"Network": "10.244.0.0/16"`, or the IPv6 fields.
    pub address_family: String,
    /// Whether rules are nftables'.
    pub nftables: bool,
    /// `vxlan` or `host-gw`.
    pub backend: String,
}

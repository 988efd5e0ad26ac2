//! Modules and settings of the kernel of every host.

use super::{Cluster, IpFamily, KUBELET_KERNEL_SETTINGS};

/// Modules that containers and the pod network require
/// (<https://kubernetes.io/docs/setup/production-environment/container-runtimes/>).
const MODULES: [&str; 2] = ["overlay", "br_netfilter"];

/// The file with the settings. systemd applies those of files with a later name after it.
pub const FILE: &str = "/etc/sysctl.d/90-kubexm.conf";

/// Settings that containers and the pod network require
/// (<https://kubernetes.io/docs/setup/production-environment/container-runtimes/>).
const REQUIRED: [(&str, &str); 3] = [
    ("net.bridge.bridge-nf-call-iptables", "1"),
    (BRIDGE_IPV6, "1"),
    ("net.ipv4.ip_forward", "1"),
];
const BRIDGE_IPV6: &str = "net.bridge.bridge-nf-call-ip6tables";
/// The setting with which a host sends packets between pods and other hosts. It turns router advertisements off for
/// interfaces without `accept_ra=2` (<https://docs.kernel.org/networking/ip-sysctl.html>).
const FORWARD_IPV6: &str = "net.ipv6.conf.all.forwarding";

impl Cluster {
    /// Returns the kernel modules that the nodes need, and those of the user.
    pub fn kernel_modules(&self) -> Vec<String> {
        let proxy = self.kubernetes.ipvs_modules();
        let proxy = proxy.iter().map(String::as_str);
        let own = self.system.modules.iter().map(|name| name.as_str());
        let mut modules: Vec<String> = Vec::new();
        for name in MODULES.into_iter().chain(proxy).chain(own) {
            if !modules.iter().any(|other| other == name) {
                modules.push(name.to_owned());
            }
        }
        modules
    }

    /// Returns the names and values of all settings, those of the user last.
    pub fn kernel_settings(&self) -> Vec<(String, String)> {
        let mut settings = REQUIRED.to_vec();
        if self.has_ipv6() {
            settings.push((FORWARD_IPV6, "1"));
        }
        if self.security.is_cis() {
            settings.extend(KUBELET_KERNEL_SETTINGS);
        }
        let settings = settings.into_iter();
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let own = self.system.sysctl.iter();
        let own = own.map(|(name, value)| (name.to_string(), value.to_string()));
        settings.chain(own).collect()
    }

    /// Returns whether the cluster does not work without a setting.
    pub fn needs_kernel_setting(&self, name: &str) -> bool {
        let is_own = self.system.sysctl.keys().any(|own| own.as_str() == name);
        !is_own && (name != BRIDGE_IPV6 || self.has_ipv6())
    }

    fn has_ipv6(&self) -> bool {
        self.network.pod_cidr.has(IpFamily::V6)
    }
}

//! `spec.highAvailability`: the load balancer, and the settings of its programs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kubexm_types::{FlagName, FlagValue, HostName, InterfaceName};

use super::{LoadBalancer, PasswordSource};

/// `spec.highAvailability`.
#[derive(Debug, Clone, Default)]
pub struct HighAvailability {
    /// How nodes reach the API servers.
    pub kind: LoadBalancer,
    /// The network interface that gets the endpoint's address; `None` for the one with the internal address of the host.
    pub interface: Option<InterfaceName>,
    /// Other interfaces by host.
    pub interfaces: BTreeMap<HostName, InterfaceName>,
    pub keepalived: KeepalivedSettings,
    pub haproxy: ProxySettings,
    pub nginx: ProxySettings,
    pub kube_vip: KubeVipSettings,
}

impl HighAvailability {
    /// Returns the interface that the cluster file names for a host.
    pub fn interface_of(&self, host: &HostName) -> Option<&InterfaceName> {
        self.interfaces.get(host).or(self.interface.as_ref())
    }
}

/// `spec.highAvailability.keepalived`.
#[derive(Debug, Clone, Default)]
pub struct KeepalivedSettings {
    /// VRRP priorities of hosts; the others have [`Self::PRIORITY`]. The host with the highest one has the address.
    pub priorities: BTreeMap<HostName, u8>,
    /// The password of VRRP version 2; `None` for version 3, which has none.
    pub password: Option<PasswordSource>,
    /// File on the controller with a script that keepalived runs when its state changes.
    pub notify_script: Option<PathBuf>,
    /// Text at the end of the configuration.
    pub extra_config: String,
}

/// Settings of a proxy.
#[derive(Debug, Clone, Default)]
pub struct ProxySettings {
    /// Whether the proxy logs connections.
    pub log: bool,
    /// Text at the end of the configuration.
    pub extra_config: String,
}

/// `spec.highAvailability.kubeVip`.
#[derive(Debug, Clone, Default)]
pub struct KubeVipSettings {
    /// Whether kube-vip also assigns addresses to services of the type `LoadBalancer`.
    pub services: bool,
    /// Further environment variables.
    pub env: BTreeMap<FlagName, FlagValue>,
}

impl KubeVipSettings {
    /// Returns whether kube-vip elects a host for each service, by a lease in the namespace of the service. By default, one
    /// host has the addresses of all services.
    pub fn elects_by_service(&self) -> bool {
        let mut env = self.env.iter();
        env.any(|(name, value)| name.to_string() == "svc_election" && value.to_string() == "true")
    }
}

impl KeepalivedSettings {
    /// The priority of a host by default.
    pub const PRIORITY: u8 = 100;

    /// The greatest length of the password. keepalived cuts off the rest (`authentication` in keepalived.conf(5)).
    const MAX_PASSWORD: usize = 8;

    /// Returns whether keepalived's configuration can contain the password.
    pub fn is_password(text: &str) -> bool {
        (1..=Self::MAX_PASSWORD).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
    }

    /// Returns the priority of a host.
    pub fn priority(&self, host: &HostName) -> u8 {
        self.priorities.get(host).copied().unwrap_or(Self::PRIORITY)
    }

    /// Returns by how much the priority of a host decreases if its proxy fails, so that any other host has a higher one.
    pub fn decrease(&self, hosts: &[HostName]) -> u8 {
        let priorities = hosts.iter().map(|host| self.priority(host));
        let greatest = priorities.clone().max().unwrap_or(Self::PRIORITY);
        let least = priorities.min().unwrap_or(Self::PRIORITY);
        (greatest - least).saturating_add(20)
    }
}

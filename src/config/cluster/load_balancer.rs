//! `spec.highAvailability` and `spec.controlPlaneEndpoint`: how nodes reach the API server.

use std::net::IpAddr;
use std::num::NonZeroU8;

use super::{AddressHolder, ControlPlanePod, LocalProxy};

/// What stands before the API servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadBalancer {
    /// Nothing: the endpoint is the first control plane.
    None,
    /// One that is there already, at `spec.controlPlaneEndpoint`.
    External,
    /// A proxy on every node, which only that node uses.
    Local {
        /// The program.
        kind: LocalProxy,
        /// How it runs.
        run: ProxyRun,
    },
    /// Programs on the hosts of the role `loadbalancer`, of which one holds the endpoint's address; who
    /// does, they find out by VRRP (RFC 9568).
    Holder {
        /// The programs.
        kind: AddressHolder,
        /// VRRP's number of the group; where not given it follows from the endpoint's address.
        virtual_router_id: Option<NonZeroU8>,
    },
    /// A static pod on every control plane, of which one holds the endpoint's address.
    Pods {
        /// The program.
        kind: ControlPlanePod,
    },
}

/// How a local proxy runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyRun {
    /// As a systemd unit.
    Systemd,
    /// As a static pod of the kubelet.
    StaticPod,
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// DNS name or IP address.
    pub host: String,
    /// The address that `host` gets in `/etc/hosts` on every host of the cluster; `None` where
    /// `host` is an address already or is left to the site's DNS.
    pub address: Option<IpAddr>,
    /// Port.
    pub port: u16,
}

impl LoadBalancer {
    /// Whether a program of kubexm's brings the endpoint's address up.
    pub fn holds_address(&self) -> bool {
        matches!(self, Self::Holder { .. } | Self::Pods { .. })
    }

    /// The endpoint's port where none is given. Control planes' own API servers have 6443, on all
    /// their addresses.
    pub fn default_port(&self) -> u16 {
        match self {
            Self::Local { .. } => 7443,
            _ => 6443,
        }
    }
}

impl Endpoint {
    /// The address that it stands for, where that is known here.
    pub fn ip(&self) -> Option<IpAddr> {
        self.address.or_else(|| self.host.parse().ok())
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.host.parse::<std::net::Ipv6Addr>() {
            Ok(address) => write!(f, "[{address}]:{}", self.port),
            Err(_) => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

//! `spec.highAvailability` and `spec.controlPlaneEndpoint`: how nodes reach the API server.

use std::net::IpAddr;
use std::num::NonZeroU8;

use super::FormerNames;
use crate::ports;
use kubexm_kinds::{AddressHolder, BalancerProperties, ControlPlanePod, LocalProxy};

/// Former values of `highAvailability.type`.
pub(crate) const FORMER_LOAD_BALANCERS: FormerNames = &[
    ("kubexm-ah", "keepalived-haproxy"),
    ("kubexm-an", "keepalived-nginx"),
];

/// The load balancer in front of the API servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LoadBalancer {
    /// None: the endpoint is the first control plane.
    #[default]
    None,
    /// An existing load balancer at `spec.controlPlaneEndpoint`.
    External,
    /// A proxy on every node, for that node only.
    Local { kind: LocalProxy, run: ProxyRun },
    /// Programs on the hosts of the role `loadbalancer`. One host has the endpoint's address; VRRP (RFC 9568)
    /// determines which one.
    Holder {
        kind: AddressHolder,
        /// How the proxy runs; keepalived is always a systemd unit.
        run: ProxyRun,
        /// Identifier of the VRRP group; `None` to derive it from the endpoint's address.
        virtual_router_id: Option<NonZeroU8>,
    },
    /// A static pod on every control plane. One of them has the endpoint's address.
    Pods { kind: ControlPlanePod },
}

/// How a proxy runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyRun {
    /// As a systemd unit.
    Systemd,
    /// As a static pod of the kubelet.
    StaticPod,
}

/// The address of the API servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// A DNS name or an IP address.
    pub host: String,
    /// The address of `host` in `/etc/hosts` on every host of the cluster; `None` if `host` is an address, or if the
    /// DNS of the site resolves it.
    pub address: Option<IpAddr>,
    pub port: u16,
}

impl LoadBalancer {
    /// Returns the values of `highAvailability.type` for which kubexm runs a program, and their programs.
    pub fn types() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
        let holders = AddressHolder::ALL.iter().map(|kind| {
            let programs = [kind.properties(), kind.proxy().properties()];
            (kind.name(), programs.map(|own| own.program).to_vec())
        });
        let others = LocalProxy::NAMES.iter().chain(ControlPlanePod::NAMES);
        holders.chain(others.map(|name| (*name, vec![*name])))
    }

    /// Returns its programs on the hosts that run it, with the names that the facts of a host have.
    pub fn programs(&self) -> Vec<String> {
        let of = |own: &BalancerProperties, run: ProxyRun| match (run, own.pod) {
            (ProxyRun::StaticPod, Some(pod)) => pod.name.to_owned(),
            _ => own.program.to_owned(),
        };
        match self {
            Self::None | Self::External => Vec::new(),
            Self::Local { kind, run } => vec![of(kind.properties(), *run)],
            Self::Holder { kind, run, .. } => vec![
                of(kind.properties(), ProxyRun::Systemd),
                of(kind.proxy().properties(), *run),
            ],
            Self::Pods { kind } => vec![of(kind.properties(), ProxyRun::StaticPod)],
        }
    }

    /// Returns true if the kubelet runs the proxies.
    pub fn has_proxy_pods(&self) -> bool {
        matches!(self, Self::Local { run, .. } | Self::Holder { run, .. } if *run == ProxyRun::StaticPod)
    }

    /// Returns true if kubexm runs a program that assigns the endpoint's address to a host.
    pub fn holds_address(&self) -> bool {
        matches!(self, Self::Holder { .. } | Self::Pods { .. })
    }

    /// Returns the default port of the endpoint, for API servers that listen on the port `api_server` of all addresses.
    /// `shares_hosts` is whether the load balancer runs on hosts with an API server.
    pub fn default_port(&self, api_server: u16, shares_hosts: bool) -> u16 {
        match self {
            Self::Local { .. } => ports::LOCAL_ENDPOINT,
            Self::Holder { .. } if shares_hosts && api_server == ports::API_SERVER => {
                ports::HELD_ENDPOINT
            }
            Self::Holder { .. } => ports::API_SERVER,
            Self::None | Self::External | Self::Pods { .. } => api_server,
        }
    }
}

impl Endpoint {
    /// Returns the IP address of the endpoint, if the cluster file contains it.
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

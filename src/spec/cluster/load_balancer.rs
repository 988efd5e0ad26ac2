//! `spec.highAvailability` and `spec.controlPlaneEndpoint`: how nodes reach the API server.

use std::net::IpAddr;

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
        proxy: Proxy,
        /// How it runs.
        run: ProxyRun,
    },
    /// keepalived with a proxy on the hosts of the role `loadbalancer`; keepalived holds the
    /// endpoint's address.
    Keepalived {
        /// The program behind keepalived.
        proxy: Proxy,
    },
    /// kube-vip as a static pod on every control plane; it holds the endpoint's address.
    KubeVip,
}

/// A TCP proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proxy {
    /// HAProxy.
    Haproxy,
    /// nginx with its stream module.
    Nginx,
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

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.host.parse::<std::net::Ipv6Addr>() {
            Ok(address) => write!(f, "[{address}]:{}", self.port),
            Err(_) => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

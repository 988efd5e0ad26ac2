//! Ports on which the programs of a cluster listen
//! (<https://kubernetes.io/docs/reference/networking/ports-and-protocols/>).

use std::ops::RangeInclusive;

/// The SSH server.
pub const SSH: u16 = 22;
/// The API server by default, as in kubeadm.
pub const API_SERVER: u16 = 6443;
/// The endpoint on each node by default, where a proxy forwards to the API servers.
pub const LOCAL_ENDPOINT: u16 = 7443;
/// The endpoint by default if keepalived moves its address between hosts with an API server.
pub const HELD_ENDPOINT: u16 = 8443;
/// The health check of a proxy in front of the API servers, on loopback.
pub const PROXY_HEALTH: u16 = 7444;
/// The kubelet's health check, on loopback.
pub const KUBELET_HEALTH: u16 = 10248;
/// The kubelet.
pub const KUBELET: u16 = 10250;
/// kube-proxy's health check.
pub const KUBE_PROXY_HEALTH: u16 = 10256;
/// kube-proxy's metrics, on loopback.
pub const KUBE_PROXY_METRICS: u16 = 10249;
/// The controller manager, on loopback.
pub const CONTROLLER_MANAGER: u16 = 10257;
/// The scheduler, on loopback.
pub const SCHEDULER: u16 = 10259;
/// etcd for its clients.
pub const ETCD_CLIENT: u16 = 2379;
/// etcd for its other members.
pub const ETCD_PEER: u16 = 2380;
/// etcd's metrics and health check, on loopback.
pub const ETCD_METRICS: u16 = 2381;
/// Ports that a cluster file cannot give to another program: those of etcd, and the one after them.
pub const ETCD_RESERVED: RangeInclusive<u16> = ETCD_CLIENT..=2382;
/// CoreDNS and the DNS caches: health checks.
pub const DNS_HEALTH: u16 = 8080;
/// CoreDNS: whether it is ready.
pub const COREDNS_READY: u16 = 8181;
/// CoreDNS: metrics.
pub const COREDNS_METRICS: u16 = 9153;
/// The DNS caches: metrics.
pub const DNS_CACHE_METRICS: u16 = 9253;
/// The registry by default.
pub const REGISTRY: u16 = 5000;
/// VXLAN as flannel and Cilium use it: the port of Linux from before the standard.
pub const VXLAN: u16 = 8472;
/// VXLAN as the standard (RFC 7348) has it. Calico uses it.
pub const VXLAN_STANDARD: u16 = 4789;
/// Geneve (RFC 8926).
pub const GENEVE: u16 = 6081;
/// BGP (RFC 4271).
pub const BGP: u16 = 179;
/// Calico's Typha.
pub const TYPHA: u16 = 5473;
/// Cilium's health checks of other nodes.
pub const CILIUM_HEALTH: u16 = 4240;

/// A port that other hosts reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    Tcp(u16),
    Udp(u16),
}

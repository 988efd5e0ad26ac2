//! Which hosts of a cluster file have members of etcd, and at which addresses.

use std::net::SocketAddr;

use kubexm_config::cluster::{Cluster, Etcd, HostSpec};
use kubexm_config::ports;
use kubexm_types::HostName;

/// Returns the word by which scripts know who runs etcd, `kubeadm` or `systemd`; `None` for an external etcd.
pub fn kind(cluster: &Cluster) -> Option<&'static str> {
    match cluster.etcd {
        Etcd::Kubeadm { .. } => Some("kubeadm"),
        Etcd::Systemd { .. } => Some("systemd"),
        Etcd::External { .. } => None,
    }
}

/// Returns the names of the hosts with members of an etcd that kubexm or kubeadm runs.
pub fn member_names(cluster: &Cluster) -> &[HostName] {
    match cluster.etcd {
        Etcd::Kubeadm { .. } => &cluster.roles.control_plane,
        Etcd::Systemd { .. } => &cluster.roles.etcd,
        Etcd::External { .. } => &[],
    }
}

/// Returns the hosts with members of an etcd that kubexm or kubeadm runs.
pub fn members(cluster: &Cluster) -> Vec<&HostSpec> {
    let names = member_names(cluster).iter();
    names.filter_map(|name| cluster.host(name)).collect()
}

/// Returns whether kubeadm or kubexm runs a member of etcd on the host.
pub fn has_member(cluster: &Cluster, host: &HostName) -> bool {
    member_names(cluster).contains(host)
}

/// Returns the address at which clients reach the member of a host.
pub fn client_url(host: &HostSpec) -> String {
    url(host, ports::ETCD_CLIENT)
}

/// Returns the address at which the other members reach the member of a host.
pub fn peer_url(host: &HostSpec) -> String {
    url(host, ports::ETCD_PEER)
}

/// Returns the address of a member that is a systemd unit, for clients on its host.
pub fn local_endpoint() -> String {
    format!("https://127.0.0.1:{}", ports::ETCD_CLIENT)
}

/// Returns all members as etcd expects them for a first start: `NAME=PEER`.
pub fn initial_cluster(cluster: &Cluster) -> Vec<String> {
    let members = members(cluster).into_iter();
    members
        .map(|host| format!("{}={}", host.name, peer_url(host)))
        .collect()
}

fn url(host: &HostSpec, port: u16) -> String {
    format!("https://{}", SocketAddr::new(host.internal_address(), port))
}

//! Checks firewalld, ufw and SELinux, and suggests the commands that let a cluster work with them.

use kubexm_config::cluster::{Cluster, Etcd, LoadBalancer};
use kubexm_config::ports::{self, Port};
use kubexm_host::facts::{Facts, Selinux};
use kubexm_types::{FindingKind, HostName};

use crate::finding::Finding;

/// A port or a range such as `2379-2380`, with `tcp` or `udp`.
pub(crate) type Opening = (String, &'static str);

/// Returns the findings of a host. All are warnings: kubexm does not change firewalls or SELinux.
pub(super) fn findings(cluster: &Cluster, name: &HostName, facts: &Facts) -> Vec<Finding> {
    let selinux = selinux(name, facts);
    let open = facts.firewalld.as_deref();
    let firewalld = open.and_then(|open| firewalld(cluster, name, open));
    let ufw = facts.ufw.then(|| ufw(cluster, name));
    [selinux, firewalld, ufw].into_iter().flatten().collect()
}

fn warning(name: &HostName, what: impl Into<String>, hint: &str) -> Finding {
    Finding::new(FindingKind::Firewall, name, false, what.into(), hint)
}

/// Returns the ports that other hosts and users must reach on a host
/// (<https://kubernetes.io/docs/reference/networking/ports-and-protocols/>, and the network plugins' own lists).
pub(crate) fn openings(cluster: &Cluster, name: &HostName) -> Vec<Opening> {
    let mut list: Vec<Opening> = Vec::new();
    let tcp = |port: u16| (port.to_string(), "tcp");
    if let Some(port) = cluster.api_server_port(name) {
        list.push(tcp(port));
    }
    let runs_etcd = !matches!(cluster.etcd, Etcd::External { .. });
    if runs_etcd && cluster.roles.etcd.contains(name) {
        let both = format!("{}-{}", ports::ETCD_CLIENT, ports::ETCD_PEER);
        list.push((both, "tcp"));
    }
    if cluster.roles.registry.contains(name) {
        list.push(tcp(cluster.registry.port));
    }
    let balances = matches!(cluster.high_availability.kind, LoadBalancer::Holder { .. });
    if balances && cluster.roles.load_balancer.contains(name) {
        list.push(tcp(cluster.control_plane_endpoint.port));
    }
    if cluster.is_node(name) {
        list.push(tcp(ports::KUBELET));
        let of_plugin = cluster.network.plugin.ports().into_iter();
        list.extend(of_plugin.map(|port| match port {
            Port::Tcp(port) => tcp(port),
            Port::Udp(port) => (port.to_string(), "udp"),
        }));
    }
    list.sort();
    list.dedup();
    list
}

fn firewalld(cluster: &Cluster, name: &HostName, open: &[String]) -> Option<Finding> {
    let is_open = |(port, kind): &Opening| open.contains(&format!("{port}/{kind}"));
    let closed: Vec<Opening> = openings(cluster, name)
        .into_iter()
        .filter(|port| !is_open(port))
        .collect();
    let list: Vec<String> = closed
        .iter()
        .map(|(port, kind)| format!("{port}/{kind}"))
        .collect();
    if list.is_empty() {
        return None;
    }
    let add: String = list
        .iter()
        .map(|port| format!(" --add-port={port}"))
        .collect();
    let pods: String = cluster
        .network
        .pod_cidr
        .iter()
        .map(|net| format!(" --add-source={net}"))
        .collect();
    let vrrp = match cluster.high_availability.kind {
        LoadBalancer::Holder { .. } if cluster.roles.load_balancer.contains(name) => {
            " --add-protocol=vrrp"
        }
        _ => "",
    };
    let what = format!(
        "firewalld is active, and its default zone blocks {}",
        list.join(", ")
    );
    let hint = format!(
        "run firewall-cmd --permanent{add}{vrrp} && firewall-cmd --permanent --zone=trusted{pods} \
         && firewall-cmd --reload; or disable it: systemctl disable --now firewalld"
    );
    Some(warning(name, what, &hint))
}

fn ufw(cluster: &Cluster, name: &HostName) -> Finding {
    let allow: Vec<String> = openings(cluster, name)
        .into_iter()
        .map(|(port, kind)| format!("ufw allow {}/{kind}", port.replace('-', ":")))
        .collect();
    let pods = cluster.network.pod_cidr.iter().map(|pods| {
        format!("ufw allow from {pods} && ufw route allow from {pods} && ufw route allow to {pods}")
    });
    let hint = format!(
        "run {}; or disable it: ufw disable",
        allow
            .into_iter()
            .chain(pods)
            .collect::<Vec<_>>()
            .join(" && ")
    );
    warning(
        name,
        "ufw is active: it blocks forwarded traffic and every port that is not allowed explicitly",
        &hint,
    )
}

/// restorecon labels the binaries. A separate policy states what containers may do
/// (<https://github.com/containers/container-selinux>).
fn selinux(name: &HostName, facts: &Facts) -> Option<Finding> {
    if facts.selinux != Some(Selinux::Enforcing) {
        return None;
    }
    let (what, hint) = if facts.container_selinux {
        (
            "SELinux is enforcing",
            "if SELinux denies something to a pod, ausearch -m avc -ts recent shows it",
        )
    } else {
        (
            "SELinux is enforcing and does not have a policy for containers",
            "install container-selinux, or add it to spec.packages of the bundle manifest; or make SELinux \
         permissive: setenforce 0, and SELINUX=permissive in /etc/selinux/config",
        )
    };
    Some(warning(name, what, hint))
}

#[cfg(test)]
mod tests;

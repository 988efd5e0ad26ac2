//! What a system does by itself to guard a host, and what a user must tell it for a cluster to work:
//! firewalld, ufw, SELinux.

use kubexm_config::cluster::{Cluster, Etcd, FlannelBackend, LoadBalancer, NetworkPlugin};
use kubexm_host::facts::{Facts, Selinux};
use kubexm_types::HostName;

/// A word about a host: what is so, and what to do.
pub(super) struct Word {
    pub(super) what: String,
    pub(super) hint: String,
}

/// A port, or a range of them as in `2379-2380`, with `tcp` or `udp`.
type Port = (String, &'static str);

/// All words on a host.
pub(super) fn words(cluster: &Cluster, name: &HostName, facts: &Facts) -> Vec<Word> {
    let selinux = selinux(facts);
    let open = facts.firewalld.as_deref();
    let firewalld = open.and_then(|open| firewalld(cluster, name, open));
    let ufw = facts.ufw.then(|| ufw(cluster, name));
    [selinux, firewalld, ufw].into_iter().flatten().collect()
}

/// What others of the cluster, and its users, must reach on a host
/// (<https://kubernetes.io/docs/reference/networking/ports-and-protocols/>, and the plugins' own lists).
fn ports(cluster: &Cluster, name: &HostName) -> Vec<Port> {
    let mut ports: Vec<Port> = Vec::new();
    let tcp = |port: u16| (port.to_string(), "tcp");
    let udp = |port: u16| (port.to_string(), "udp");
    if cluster.is_control_plane(name) {
        ports.push(tcp(6443));
    }
    let runs_etcd = !matches!(cluster.etcd, Etcd::External { .. });
    if runs_etcd && cluster.roles.etcd.contains(name) {
        ports.push(("2379-2380".to_owned(), "tcp"));
    }
    if cluster.roles.registry.contains(name) {
        ports.push(tcp(cluster.registry.port));
    }
    let balances = matches!(cluster.load_balancer, LoadBalancer::Holder { .. });
    if balances && cluster.roles.load_balancer.contains(name) {
        ports.push(tcp(cluster.control_plane_endpoint.port));
    }
    if cluster.is_node(name) {
        ports.push(tcp(10250));
        ports.extend(match cluster.network.plugin {
            NetworkPlugin::Flannel(FlannelBackend::Vxlan) => vec![udp(8472)],
            NetworkPlugin::Calico(_) => vec![tcp(179), udp(4789), tcp(5473)],
            NetworkPlugin::Cilium(_) => vec![udp(8472), tcp(4240)],
            NetworkPlugin::Flannel(FlannelBackend::HostGw)
            | NetworkPlugin::Bridge
            | NetworkPlugin::None => Vec::new(),
        });
    }
    ports.sort();
    ports.dedup();
    ports
}

fn firewalld(cluster: &Cluster, name: &HostName, open: &[String]) -> Option<Word> {
    let is_open = |(port, kind): &Port| open.contains(&format!("{port}/{kind}"));
    let closed: Vec<Port> = ports(cluster, name)
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
    let pods = &cluster.network.pod_cidr;
    let vrrp = match cluster.load_balancer {
        LoadBalancer::Holder { .. } if cluster.roles.load_balancer.contains(name) => {
            " --add-protocol=vrrp"
        }
        _ => "",
    };
    Some(Word {
        what: format!(
            "firewalld is on, and its default zone does not let in {}",
            list.join(", ")
        ),
        hint: format!(
            "firewall-cmd --permanent{add}{vrrp} && firewall-cmd --permanent --zone=trusted \
             --add-source={pods} && firewall-cmd --reload; or turn it off: systemctl disable --now firewalld"
        ),
    })
}

fn ufw(cluster: &Cluster, name: &HostName) -> Word {
    let allow: Vec<String> = ports(cluster, name)
        .into_iter()
        .map(|(port, kind)| format!("ufw allow {}/{kind}", port.replace('-', ":")))
        .collect();
    let pods = &cluster.network.pod_cidr;
    Word {
        what: "ufw is on: it lets in what it is told to, and passes on nothing".to_owned(),
        hint: format!(
            "{} && ufw allow from {pods} && ufw route allow from {pods} && ufw route allow to {pods}; or turn \
             it off: ufw disable",
            allow.join(" && ")
        ),
    }
}

/// Binaries get their labels by restorecon; what containers may do is said by a policy of its own
/// (<https://github.com/containers/container-selinux>).
fn selinux(facts: &Facts) -> Option<Word> {
    if facts.selinux != Some(Selinux::Enforcing) {
        return None;
    }
    let (what, hint) = match facts.container_selinux {
        true => (
            "SELinux enforces",
            "if a pod is refused something: ausearch -m avc -ts recent",
        ),
        false => (
            "SELinux enforces, and has no policy for containers",
            "install container-selinux from your system's media, or add it to spec.packages of the \
             bundle's manifest; or let SELinux only tell: setenforce 0, and SELINUX=permissive in \
             /etc/selinux/config",
        ),
    };
    Some(Word {
        what: what.to_owned(),
        hint: hint.to_owned(),
    })
}

#[cfg(test)]
mod tests;

//! Compares the settings that a cluster keeps for its whole life with the settings of the programs on its hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use crate::finding::Finding;
use kubexm_config::cluster::{Cluster, Etcd, HostSpec, NetworkPlugin, RuntimeKind};
use kubexm_host::Facts;
use kubexm_host::facts::Setting;
use kubexm_types::{FindingKind, HostName};

/// A field of the cluster file that contradicts the programs on a host.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Contradiction {
    /// The field, with its value in the cluster file.
    field: String,
    /// The value with which the programs run.
    applied: String,
    hint: String,
}

impl Contradiction {
    /// The endpoint or the address of a host. It changes when the cluster moves to another network.
    fn moved(field: &str, desired: &str, applied: &str) -> Self {
        Self {
            hint: format!(
                "set {field} to {applied} again; one host gets another address with kubexm node remove and kubexm node add; \
                 a whole cluster moves with kubexm backup create, kubexm reset and kubexm backup restore"
            ),
            ..Self::kept(field, desired, applied)
        }
    }

    /// A field that keeps its first value.
    fn kept(field: &str, desired: &str, applied: &str) -> Self {
        Self {
            field: format!("{field} is {desired} in the cluster file"),
            applied: format!("the cluster was installed with {applied}"),
            hint: format!(
                "set {field} to {applied} again: it cannot change after the first install; for another value, \
                 install a new cluster"
            ),
        }
    }
}

/// Returns a finding for each field of the cluster file that an install cannot apply to a cluster that exists. The
/// first host with the contradiction is named.
pub fn check(cluster: &Cluster, facts: &BTreeMap<HostName, Facts>) -> Vec<Finding> {
    findings(cluster, facts, version)
}

/// Returns the same findings for an upgrade, which changes the version of Kubernetes.
pub fn check_upgrade(cluster: &Cluster, facts: &BTreeMap<HostName, Facts>) -> Vec<Finding> {
    findings(cluster, facts, |_, _| None)
}

fn findings(
    cluster: &Cluster,
    facts: &BTreeMap<HostName, Facts>,
    version: fn(&Cluster, &Facts) -> Option<Contradiction>,
) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let mut findings: Vec<Finding> = encryption(cluster, facts).into_iter().collect();
    let nodes = cluster.nodes();
    let others = cluster.hosts.iter();
    let others = others.filter(|host| !nodes.iter().any(|node| node.name == host.name));
    for host in nodes.iter().copied().chain(others) {
        let Some(facts) = facts.get(&host.name) else {
            continue;
        };
        let found = contradictions(cluster, host, facts);
        for found in found.into_iter().chain(version(cluster, facts)) {
            let what = format!("{}, but {}", found.field, found.applied);
            if seen.insert(what.clone()) {
                findings.push(Finding::new(
                    FindingKind::FixedSetting,
                    &host.name,
                    true,
                    what,
                    &found.hint,
                ));
            }
        }
    }
    findings
}

/// API servers without their keys cannot read the Secrets in etcd.
fn encryption(cluster: &Cluster, facts: &BTreeMap<HostName, Facts>) -> Option<Finding> {
    let has = |value: &str| {
        let mut hosts = facts.iter();
        hosts.find(|(_, facts)| facts.applied(Setting::Encryption).any(|one| one == value))
    };
    let (host, _) = has("encrypted")?;
    if cluster.security.encryption.is_some() || has("plain").is_some() {
        return None;
    }
    let what =
        "security.encryption is not in the cluster file, but the Secrets in etcd are encrypted";
    let hint = "set security.encryption as it was; to store Secrets as plain text, first run an install with \
                security.encryption.key: 0";
    Some(Finding::new(
        FindingKind::FixedSetting,
        host,
        true,
        what.to_owned(),
        hint,
    ))
}

fn contradictions(cluster: &Cluster, host: &HostSpec, facts: &Facts) -> Vec<Contradiction> {
    let mut found = Vec::new();
    let kubernetes = &cluster.kubernetes;
    let user_flag = |program: &str, flag: &str| {
        let component = match program {
            "api server" => &kubernetes.api_server.component,
            _ => &kubernetes.controller_manager,
        };
        component.extra_args.contains_key(flag)
    };
    let mut compare = |field: &str, setting: Setting, desired: String| {
        let mut applied = facts.applied(setting);
        if let Some(applied) = applied.find(|applied| !same(applied, &desired)) {
            // Backups do not have the data of an external etcd.
            let is_external = matches!(cluster.etcd, Etcd::External { .. });
            found.push(match setting {
                Setting::Endpoint | Setting::AdvertiseAddress if !is_external => {
                    Contradiction::moved(field, &desired, applied)
                }
                _ => Contradiction::kept(field, &desired, applied),
            });
        }
    };
    let kind = kubernetes.kind.name().to_owned();
    compare("kubernetes.type", Setting::KubernetesType, kind);
    compare(
        "kubernetes.dnsDomain",
        Setting::DnsDomain,
        kubernetes.dns_domain.clone(),
    );
    compare(
        "controlPlaneEndpoint",
        Setting::Endpoint,
        cluster.control_plane_endpoint.to_string(),
    );
    if !user_flag("api server", "service-cluster-ip-range") {
        let desired = cluster.network.service_cidr.to_string();
        compare("network.serviceCIDR", Setting::ServiceCidr, desired);
    }
    if !user_flag("controller manager", "cluster-cidr") {
        let desired = cluster.network.pod_cidr.to_string();
        compare("network.podCIDR", Setting::PodCidr, desired);
    }
    if !user_flag("controller manager", "cluster-name") {
        let desired = kubernetes.cluster_name.clone();
        compare("kubernetes.clusterName", Setting::ClusterName, desired);
    }
    if !user_flag("api server", "advertise-address") {
        let field = format!("internalAddress of {}", host.name);
        let desired = host.internal_address().to_string();
        compare(&field, Setting::AdvertiseAddress, desired);
    }
    if !user_flag("api server", "secure-port") {
        let desired = kubernetes.api_server.port.to_string();
        compare("kubernetes.apiServer.port", Setting::ApiServerPort, desired);
    }
    if let Some(data_dir) = cluster.etcd.data_directory() {
        compare("etcd.dataDir", Setting::EtcdDataDir, data_dir.to_owned());
    }
    let transport = match cluster.network.plugin {
        NetworkPlugin::Flannel(backend) => Some((
            "network.flannel.backend",
            Setting::FlannelBackend,
            backend.name(),
        )),
        // Calico reads it only when it creates its first pool of addresses.
        NetworkPlugin::Calico(calico) => Some((
            "network.calico.encapsulation",
            Setting::CalicoEncapsulation,
            calico.encapsulation.name(),
        )),
        // Nodes with another setting cannot exchange packets of pods.
        NetworkPlugin::Cilium(cilium) => Some((
            "network.cilium.routing",
            Setting::CiliumRouting,
            cilium.routing.name(),
        )),
        NetworkPlugin::Bridge | NetworkPlugin::None => None,
    };
    if let Some((field, setting, desired)) = transport {
        compare(field, setting, desired.to_owned());
    }
    found.extend(node_name(host, facts));
    found.extend(runtime(cluster, facts));
    found.extend(network(cluster, facts));
    found.extend(etcd(cluster, host, facts));
    found.extend(role(cluster, host, facts));
    found.extend(balancer(cluster, host, facts));
    found
}

/// Returns whether two values mean the same: as networks, as addresses, or as text. A value of each address family is a
/// list.
fn same(one: &str, other: &str) -> bool {
    let (ones, others) = (one.split(','), other.split(','));
    ones.clone().count() == others.clone().count()
        && ones.zip(others).all(|(one, other)| same_value(one, other))
}

fn same_value(one: &str, other: &str) -> bool {
    let networks = || Some(one.parse::<IpNet>().ok()? == other.parse::<IpNet>().ok()?);
    let addresses = || Some(one.parse::<IpAddr>().ok()? == other.parse::<IpAddr>().ok()?);
    one == other || networks().unwrap_or(false) || addresses().unwrap_or(false)
}

fn version(cluster: &Cluster, facts: &Facts) -> Option<Contradiction> {
    let desired = cluster.kubernetes.version.to_string();
    let applied = facts.applied(Setting::Version).next()?;
    if applied == desired {
        return None;
    }
    Some(Contradiction {
        field: format!("kubernetes.version is {desired} in the cluster file"),
        applied: format!("the API server of the cluster is {applied}"),
        hint: format!(
            "run kubexm upgrade with this cluster file and bundle, or set kubernetes.version to {applied} again"
        ),
    })
}

fn runtime(cluster: &Cluster, facts: &Facts) -> Option<Contradiction> {
    let desired = cluster.runtime.kind.name();
    let socket = facts.applied(Setting::Runtime).next()?;
    let Some(applied) = RuntimeKind::by_socket(socket) else {
        return Some(Contradiction {
            field: format!("containerRuntime.type is {desired} in the cluster file"),
            applied: format!(
                "the kubelet uses the runtime at {socket}, which kubexm does not know"
            ),
            hint: format!(
                "let the kubelet use {} again, or install a new cluster",
                cluster.runtime.kind.properties().socket
            ),
        });
    };
    (applied != cluster.runtime.kind)
        .then(|| Contradiction::kept("containerRuntime.type", desired, applied.name()))
}

/// A host has a file of each plugin that an install has applied.
fn network(cluster: &Cluster, facts: &Facts) -> Option<Contradiction> {
    let desired = cluster.network.plugin.name();
    let applied: Vec<&str> = facts.applied(Setting::Network).collect();
    if applied.is_empty() || applied.contains(&desired) {
        return None;
    }
    Some(Contradiction::kept(
        "network.plugin",
        desired,
        &applied.join(" and "),
    ))
}

fn etcd(cluster: &Cluster, host: &HostSpec, facts: &Facts) -> Option<Contradiction> {
    let desired = match &cluster.etcd {
        Etcd::Kubeadm { .. } => "kubeadm",
        Etcd::Systemd { .. } => "systemd",
        Etcd::External { .. } => "external",
    };
    let members: Vec<&str> = facts.applied(Setting::Etcd).collect();
    if let Some(applied) = members.iter().find(|applied| **applied != desired) {
        return Some(Contradiction::kept("etcd.type", desired, applied));
    }
    let is_member = cluster.roles.etcd.contains(&host.name);
    if desired == "systemd" && !members.is_empty() && !is_member {
        return Some(Contradiction {
            field: format!("{} is not in roleGroups.etcd", host.name),
            applied: "it runs a member of the cluster's etcd".to_owned(),
            hint: format!(
                "add {} to roleGroups.etcd again; kubexm does not remove members of etcd",
                host.name
            ),
        });
    }
    // A control plane without a member: it runs elsewhere, and its addresses state where.
    let servers = facts.applied(Setting::EtcdServers).next()?;
    let servers: BTreeSet<&str> = servers.split(',').collect();
    let own = servers
        .iter()
        .all(|url| url.contains("//127.0.0.1:") || url.contains("//[::1]:"));
    let expected: BTreeSet<String> = match &cluster.etcd {
        Etcd::Kubeadm { .. } if members.is_empty() && !own => {
            return Some(Contradiction::kept(
                "etcd.type",
                desired,
                "systemd or external",
            ));
        }
        Etcd::Kubeadm { .. } => return None,
        Etcd::Systemd { .. } => return None,
        Etcd::External { endpoints, .. } => endpoints.iter().cloned().collect(),
    };
    let shares = servers.iter().any(|server| expected.contains(*server));
    (!shares).then(|| {
        let join = |urls: Vec<&str>| urls.join(",");
        Contradiction::kept(
            "etcd.external.endpoints",
            &join(expected.iter().map(String::as_str).collect()),
            &join(servers.into_iter().collect()),
        )
    })
}

/// A node keeps the name with which it registered.
fn node_name(host: &HostSpec, facts: &Facts) -> Option<Contradiction> {
    let (name, address) = (&host.name, &host.address);
    let mut applied = facts.applied(Setting::NodeName);
    let applied = applied.find(|applied| *applied != name.as_str())?;
    Some(Contradiction {
        field: format!(
            "the host with the address {address} has the name {name} in the cluster file"
        ),
        applied: format!("its node has the name {applied}"),
        hint: format!(
            "name the host {applied} again, or correct its address: kubexm does not rename nodes"
        ),
    })
}

/// An install cannot make a worker a control plane, or the other way round.
fn role(cluster: &Cluster, host: &HostSpec, facts: &Facts) -> Option<Contradiction> {
    if !facts.is_node() {
        return None;
    }
    let is = facts.applied(Setting::ControlPlane).next().is_some();
    let (desired, applied) = match (cluster.is_control_plane(&host.name), is) {
        (true, false) => ("control-plane", "worker"),
        (false, true) => ("worker", "control-plane"),
        _ => return None,
    };
    let name = &host.name;
    Some(Contradiction {
        field: format!("{name} has the role {desired} in the cluster file"),
        applied: format!("it was installed as {applied}"),
        hint: format!(
            "move {name} to roleGroups.{applied} again; kubexm does not change the role of a node that exists"
        ),
    })
}

/// Programs of another load balancer would continue to run, and hold its addresses.
fn balancer(cluster: &Cluster, host: &HostSpec, facts: &Facts) -> Option<Contradiction> {
    let desired = if cluster.runs_load_balancer(&host.name) {
        cluster.high_availability.kind.programs()
    } else {
        Vec::new()
    };
    let mut applied = facts.applied(Setting::Balancer);
    let other = applied.find(|applied| !desired.iter().any(|own| own == applied))?;
    Some(Contradiction {
        field: format!(
            "highAvailability and roleGroups.loadbalancer give {} no {other}",
            host.name
        ),
        applied: format!("{other} of an earlier install runs on it"),
        hint: "set highAvailability and roleGroups.loadbalancer as they were: kubexm does not remove a load balancer \
               from a cluster that exists"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests;

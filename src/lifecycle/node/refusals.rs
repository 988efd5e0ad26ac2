//! Which hosts cannot leave a cluster, whatever their state is.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kubexm_config::Cluster;
use kubexm_config::cluster::{Etcd, HostSpec};
use kubexm_session::CommandError;
use kubexm_session::begun::joined;
use kubexm_types::HostName;

/// Fails if something of the cluster is only on the hosts that leave.
pub(super) fn check(cluster: &Cluster, leaving: &BTreeSet<HostName>) -> Result<(), CommandError> {
    let roles = &cluster.roles;
    let refused = |why: String, hint: &str| {
        let names = joined(leaving);
        Err(CommandError::refused(format!("cannot remove {names}: {why}")).hint(hint))
    };
    let only =
        |hosts: &[HostName]| !hosts.is_empty() && hosts.iter().all(|name| leaving.contains(name));
    if only(&roles.control_plane) {
        return refused(
            "no control plane would remain".to_owned(),
            "add another control plane first; kubexm reset removes the whole cluster",
        );
    }
    if cluster.registry.external.is_none() && only(&roles.registry) {
        let hosts = joined(&roles.registry);
        return refused(
            format!("without {hosts}, no registry has the images of the cluster"),
            "add another host to roleGroups.registry, run kubexm install and kubexm registry sync, then remove this one",
        );
    }
    if only(&roles.etcd) && matches!(cluster.etcd, Etcd::Systemd { .. }) {
        return refused(
            "no member of etcd would remain".to_owned(),
            "add another host to roleGroups.etcd first",
        );
    }
    if cluster.high_availability.kind.holds_address() && only(&roles.load_balancer) {
        return refused(
            format!(
                "no load balancer would have the endpoint {}",
                cluster.control_plane_endpoint
            ),
            "add another host to roleGroups.loadbalancer, run kubexm install, then remove this one",
        );
    }
    for name in leaving {
        if let Some(host) = cluster.host(name).filter(|host| is_endpoint(cluster, host)) {
            return refused(
                format!(
                    "the endpoint {} of the cluster is the address of {}, and all nodes use it",
                    cluster.control_plane_endpoint, host.name
                ),
                "the endpoint of a cluster cannot change: let another machine have this address first",
            );
        }
    }
    Ok(())
}

/// Returns whether nodes reach the API servers at the address of a host, and no load balancer holds this address.
fn is_endpoint(cluster: &Cluster, host: &HostSpec) -> bool {
    if cluster.high_availability.kind.holds_address() {
        return false;
    }
    let endpoint = &cluster.control_plane_endpoint;
    let host_names = [host.name.as_str(), host.address.as_str()];
    if host_names.contains(&endpoint.host.as_str()) {
        return true;
    }
    // An address has several spellings.
    let parsed = |text: &str| text.parse::<IpAddr>().ok();
    let own = host.internal_addresses.iter();
    let own: Vec<IpAddr> = own.chain(parsed(&host.address)).collect();
    let addresses = endpoint.address.into_iter().chain(parsed(&endpoint.host));
    addresses
        .map(|address| address.to_canonical())
        .any(|address| own.iter().any(|own| own.to_canonical() == address))
}

/// Returns the cluster without these hosts, for as long as new ones with their names are not there yet.
pub(super) fn without(cluster: &Cluster, leaving: &BTreeSet<HostName>) -> Cluster {
    let mut cluster = cluster.clone();
    let stays = |name: &HostName| !leaving.contains(name);
    cluster.hosts.retain(|host| stays(&host.name));
    let roles = &mut cluster.roles;
    for role in [
        &mut roles.control_plane,
        &mut roles.worker,
        &mut roles.registry,
        &mut roles.etcd,
        &mut roles.load_balancer,
    ] {
        role.retain(stays);
    }
    for patch in &mut cluster.kubernetes.kubeadm.patches {
        // A patch without hosts is for all of them.
        if patch.hosts.iter().any(stays) {
            patch.hosts.retain(stays);
        }
    }
    cluster
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_config::example::{cluster_of, text_of};

    fn refused(cluster: &Cluster, names: &[&str]) -> String {
        let leaving = names.iter().map(|name| name.parse().unwrap()).collect();
        match check(cluster, &leaving) {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn host_with_the_only_copy_of_something_stays() {
        let one = cluster_of("control-plane: [node1], worker: [node2, node3]", "", "");
        insta::assert_snapshot!(refused(&one, &["node1"]), @"
        cannot remove node1: no control plane would remain
        hint: add another control plane first; kubexm reset removes the whole cluster
        ");
        assert_eq!(refused(&one, &["node2", "node3"]), "");
        let several = cluster_of(
            "control-plane: [node1, node2, node3], registry: [node2]",
            "",
            "highAvailability: {type: external}\ncontrolPlaneEndpoint: 192.0.2.13:6443",
        );
        insta::assert_snapshot!(refused(&several, &["node2"]), @"
        cannot remove node2: without node2, no registry has the images of the cluster
        hint: add another host to roleGroups.registry, run kubexm install and kubexm registry sync, then remove this one
        ");
        insta::assert_snapshot!(refused(&several, &["node3"]), @"
        cannot remove node3: the endpoint 192.0.2.13:6443 of the cluster is the address of node3, and all nodes use it
        hint: the endpoint of a cluster cannot change: let another machine have this address first
        ");
        assert_eq!(refused(&several, &["node1"]), "");
    }

    /// Before, only the text was compared.
    #[test]
    fn host_of_the_endpoint_stays_however_its_address_is_written() {
        let text = text_of(
            "control-plane: [node1, node2, node3]",
            "",
            "highAvailability: {type: external}\ncontrolPlaneEndpoint: '[2001:DB8:0::13]:6443'\n\
             network: {podCIDR: 'fd00:10::/56', serviceCIDR: 'fd00:20::/112'}",
        );
        let text = text.replace("192.0.2.", "2001:db8::");
        let several = kubexm_config::parse_cluster("example", &text).unwrap();
        let text = refused(&several, &["node3"]);
        assert!(text.contains("is the address of node3"), "{text}");
        assert_eq!(refused(&several, &["node2"]), "");
    }

    #[test]
    fn cluster_without_hosts_keeps_the_others_in_their_roles() {
        let roles = "control-plane: [node1], worker: [node2, node3], registry: [node1, node3]";
        let cluster = cluster_of(roles, "", "");
        let cluster = without(&cluster, &BTreeSet::from(["node3".parse().unwrap()]));
        assert_eq!(cluster.hosts.len(), 2);
        assert_eq!(joined(&cluster.roles.worker), "node2");
        assert_eq!(joined(&cluster.roles.registry), "node1");
        assert_eq!(joined(&cluster.roles.etcd), "node1");
    }
}

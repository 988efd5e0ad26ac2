//! What a plan is computed from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::preflight;
use kubexm_bundle::BundleSet;
use kubexm_config::Cluster;
use kubexm_deploy::{Certificates, HostFacts, Inputs};
use kubexm_host::Facts;
use kubexm_types::HostName;

/// Returns what a plan is computed from, with placeholders instead of certificates.
pub fn without_certificates<'a>(
    cluster: &'a Cluster,
    bundle: &'a Arc<BundleSet>,
    facts: &BTreeMap<HostName, Facts>,
) -> Inputs<'a> {
    let mut inputs = Inputs::assumed(cluster, bundle.lock(), Arc::clone(bundle) as _);
    for (name, facts) in facts {
        if let Some(host) = inputs.hosts.get_mut(name) {
            *host = preflight::host_facts(facts.arch().unwrap_or(host.arch), facts);
        }
    }
    inputs
}

/// Returns everything that the plan is computed from.
pub fn with_certificates<'a>(
    cluster: &'a Cluster,
    bundle: &'a Arc<BundleSet>,
    facts: &BTreeMap<HostName, Facts>,
    certificates: Certificates,
) -> Inputs<'a> {
    let hosts = facts.iter().filter_map(|(name, facts)| {
        let host = preflight::host_facts(facts.arch()?, facts);
        Some((name.clone(), host))
    });
    Inputs {
        cluster,
        lock: bundle.lock(),
        blobs: Arc::clone(bundle) as _,
        hosts: hosts.collect(),
        absent: BTreeSet::new(),
        leaving: BTreeSet::new(),
        certificates,
    }
}

/// Lets hosts of a cluster whose facts are unknown count as parts of it. Without that, the plan gives what the first control plane
/// has to another one, or takes the cluster for a new one. A cluster of which no known host is a node may be new.
pub fn assume_installed(cluster: &Cluster, hosts: &mut BTreeMap<HostName, HostFacts>) {
    let Some(arch) = hosts
        .values()
        .find(|facts| facts.is_node)
        .map(|facts| facts.arch)
    else {
        return;
    };
    let is = |of: fn(&HostFacts) -> bool| hosts.values().any(of);
    let (has_files, is_initialized) = (
        is(|facts| facts.has_cluster_files),
        is(|facts| facts.is_initialized),
    );
    let etcd_formed = is(|facts| facts.etcd_formed);
    let names = cluster.hosts.iter().map(|host| &host.name);
    let unknown: Vec<&HostName> = names.filter(|name| !hosts.contains_key(*name)).collect();
    let mut control_planes = cluster.roles.control_plane.iter();
    let first = control_planes.find(|name| unknown.contains(name));
    for name in unknown {
        let is_first = first == Some(name);
        let assumed = HostFacts {
            is_node: cluster.is_node(name),
            has_cluster_files: is_first && !has_files,
            is_initialized: is_first && !is_initialized,
            etcd_formed,
            ..HostFacts::assumed(arch)
        };
        hosts.insert(name.clone(), assumed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_types::Arch;

    #[test]
    fn first_control_plane_that_is_off_stays_the_first() {
        let cluster = kubexm_config::example::cluster_of(
            "control-plane: [node1, node2], worker: [node2], registry: [node3]",
            "",
            "controlPlaneEndpoint: {domain: api.example, address: 192.0.2.20}\nhighAvailability: {type: external}",
        );
        let name = |index: usize| cluster.hosts[index].name.clone();
        let node = |has_cluster_files| HostFacts {
            is_node: true,
            has_cluster_files,
            is_initialized: has_cluster_files,
            ..HostFacts::assumed(Arch::Amd64)
        };
        let assumed = |known: HostFacts| {
            let mut hosts = BTreeMap::from([(name(1), known)]);
            assume_installed(&cluster, &mut hosts);
            hosts
        };
        let hosts = assumed(node(false));
        let first = &hosts[&name(0)];
        assert!(first.is_node && first.has_cluster_files && first.is_initialized);
        assert!(!hosts[&name(2)].is_node);
        // Another one has these files.
        let hosts = assumed(node(true));
        assert!(hosts[&name(0)].is_node && !hosts[&name(0)].has_cluster_files);
        assert_eq!(assumed(HostFacts::assumed(Arch::Amd64)).len(), 1);
    }
}

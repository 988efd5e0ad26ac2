//! What is missing in a backup, so that it cannot take the place of an older one.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_config::Cluster;
use kubexm_config::cluster::{HostSpec, KubernetesKind};
use kubexm_deploy::backup::members;
use kubexm_host::Facts;
use kubexm_types::{Arch, HostName};

/// Returns what is missing in a backup: one line for each gap, and none for a complete backup.
///
/// `hosts` are those whose configuration it contains. `has_program` returns whether it contains etcdutl for an architecture.
pub(super) fn gaps<'a>(
    cluster: &Cluster,
    has_quorum: bool,
    mut hosts: impl Iterator<Item = &'a HostName>,
    facts: &BTreeMap<HostName, Facts>,
    has_program: impl Fn(Arch) -> bool,
) -> Vec<String> {
    let mut gaps = Vec::new();
    if !has_quorum {
        gaps.push("etcd has no quorum, so the backup may lack the last writes".to_owned());
    }
    // Without a control plane, it does not have the authorities of kubeadm.
    let needs_authorities = cluster.kubernetes.kind == KubernetesKind::Kubeadm;
    if needs_authorities && !hosts.any(|host| cluster.is_control_plane(host)) {
        gaps.push(
            "no control plane could be reached, so new hosts cannot be restored from the backup"
                .to_owned(),
        );
    }
    let of = |host: &HostSpec| facts.get(&host.name).and_then(Facts::arch).or(host.arch);
    let known: BTreeSet<Arch> = members(cluster).into_iter().filter_map(of).collect();
    for host in members(cluster) {
        match of(host) {
            Some(arch) if has_program(arch) => {}
            Some(arch) => gaps.push(format!(
                "{}: the backup has no etcdutl for {arch}, so this host cannot be restored from it",
                host.name
            )),
            // It most likely has the architecture of all others.
            None if known.len() == 1 => {}
            None => gaps.push(format!(
                "{}: its architecture is not known, so the backup may have no etcdutl for this host; `arch` of the host in \
                 the cluster file states it",
                host.name
            )),
        }
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::example::cluster_of_four;

    /// Returns the gaps of a backup with etcdutl for amd64, and the configuration of these hosts.
    fn of(has_quorum: bool, hosts: &[&str], machines: &[(&str, &str)]) -> Vec<String> {
        let facts = machines.iter().map(|(name, machine)| {
            let facts = Facts {
                machine: (*machine).to_owned(),
                ..Facts::default()
            };
            (name.parse().unwrap(), facts)
        });
        let hosts: Vec<HostName> = hosts.iter().map(|name| name.parse().unwrap()).collect();
        let has_program = |arch| arch == Arch::Amd64;
        let facts = facts.collect();
        gaps(
            &cluster_of_four(),
            has_quorum,
            hosts.iter(),
            &facts,
            has_program,
        )
    }

    #[test]
    fn backup_without_the_last_writes_or_the_authorities_is_not_complete() {
        let all = ["node1", "node2", "node3"].map(|name| (name, "x86_64"));
        assert_eq!(of(true, &["node2"], &all), [""; 0]);
        let found = of(false, &["node4"], &all);
        assert!(found[0].starts_with("etcd has no quorum"), "{found:?}");
        assert!(found[1].starts_with("no control plane"), "{found:?}");
        assert_eq!(found.len(), 2);
    }

    /// A restore on such a member failed, without a warning before.
    #[test]
    fn backup_without_etcdutl_for_a_member_is_not_complete() {
        let found = of(
            true,
            &["node1"],
            &[("node1", "x86_64"), ("node2", "aarch64")],
        );
        assert_eq!(
            found,
            [
                "node2: the backup has no etcdutl for arm64, so this host cannot be restored from it",
                "node3: its architecture is not known, so the backup may have no etcdutl for this host; `arch` of the host in \
                 the cluster file states it"
            ]
        );
        // A host that is off must not make each backup incomplete.
        assert_eq!(of(true, &["node1"], &[("node1", "x86_64")]), [""; 0]);
    }
}

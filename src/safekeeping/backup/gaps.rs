//! What is missing in a backup, so that it cannot take the place of an older one.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_config::Cluster;
use kubexm_config::cluster::{HostSpec, KubernetesKind};
use kubexm_etcd::members;
use kubexm_host::Facts;
use kubexm_session::authorities;
use kubexm_types::{Arch, HostName, Message};

/// How a message about a gap begins.
pub(super) const INCOMPLETE: &str = "the backup is not complete";

/// The control planes whose configuration a backup contains, and which authorities of kubeadm are missing on each.
pub(super) type ControlPlanes<'a> = Vec<(&'a HostName, Vec<String>)>;

/// Returns what is missing in a backup, and nothing for a complete backup.
///
/// `has_program` returns whether it contains etcdutl for an architecture.
pub(super) fn gaps(
    cluster: &Cluster,
    has_quorum: bool,
    control_planes: &ControlPlanes<'_>,
    facts: &BTreeMap<HostName, Facts>,
    has_program: impl Fn(Arch) -> bool,
) -> Vec<Message> {
    let mut gaps: Vec<Message> = Vec::new();
    let mut push = |text: String| gaps.push(text.into());
    if !has_quorum {
        push("etcd has no quorum, so the backup may lack the last writes".to_owned());
    }
    let of = |host: &HostSpec| facts.get(&host.name).and_then(Facts::arch).or(host.arch);
    let known: BTreeSet<Arch> = members(cluster).into_iter().filter_map(of).collect();
    for host in members(cluster) {
        match of(host) {
            Some(arch) if has_program(arch) => {}
            Some(arch) => push(format!(
                "{}: the backup has no etcdutl for {arch}, so no machine of this kind can verify it",
                host.name
            )),
            // It most likely has the architecture of all others.
            None if known.len() == 1 => {}
            None => push(format!(
                "{}: its architecture is not known, so the backup may have no etcdutl for this host; `arch` of the host in \
                 the cluster file states it",
                host.name
            )),
        }
    }
    gaps.extend(without_authorities(cluster, control_planes));
    gaps
}

/// Returns the gap of a backup from which no new control plane can be installed. kubeadm keeps its authorities on control planes;
/// without kubeadm, they are in the state directory.
fn without_authorities(cluster: &Cluster, control_planes: &ControlPlanes<'_>) -> Option<Message> {
    if cluster.kubernetes.kind != KubernetesKind::Kubeadm {
        return None;
    }
    if control_planes.is_empty() {
        let text =
            "no control plane could be reached, so new hosts cannot be restored from the backup";
        return Some(text.to_owned().into());
    }
    if control_planes.iter().any(|(_, missing)| missing.is_empty()) {
        return None;
    }
    let lines = control_planes
        .iter()
        .map(|(host, missing)| format!("{host} does not have {}", missing.join(", ")));
    let text = format!(
        "no control plane has all authorities of kubeadm in {}, so new hosts cannot be restored from the backup: {}",
        authorities::DIRECTORY,
        lines.collect::<Vec<_>>().join("; ")
    );
    let hint = "put these files on one control plane, as regular files; if a site keeps them elsewhere on purpose, put them \
                there while it creates one backup: incomplete backups do not remove that one";
    Some(Message::new(text).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_session::example::{cluster_of_four, cluster_of_two as cluster, cluster_of_units};

    /// Returns the gaps of a backup with etcdutl for amd64, and all authorities of these control planes.
    fn of(has_quorum: bool, hosts: &[&str], machines: &[(&str, &str)]) -> Vec<String> {
        let facts = machines.iter().map(|(name, machine)| {
            let facts = Facts {
                machine: (*machine).to_owned(),
                ..Facts::default()
            };
            (name.parse().unwrap(), facts)
        });
        let hosts: Vec<HostName> = hosts.iter().map(|name| name.parse().unwrap()).collect();
        let control_planes = hosts.iter().map(|host| (host, Vec::new())).collect();
        let has_program = |arch| arch == Arch::Amd64;
        let facts = facts.collect();
        let found = gaps(
            &cluster_of_four(),
            has_quorum,
            &control_planes,
            &facts,
            has_program,
        );
        found.into_iter().map(|gap| gap.text).collect()
    }

    #[test]
    fn backup_without_the_last_writes_or_the_authorities_is_not_complete() {
        let all = ["node1", "node2", "node3"].map(|name| (name, "x86_64"));
        assert_eq!(of(true, &["node2"], &all), [""; 0]);
        let found = of(false, &[], &all);
        assert!(found[0].starts_with("etcd has no quorum"), "{found:?}");
        assert!(found[1].starts_with("no control plane"), "{found:?}");
        assert_eq!(found.len(), 2);
    }

    /// Each run of a timer counted as complete, and removed the last backup with the keys.
    #[test]
    fn backup_without_all_authorities_of_one_control_plane_is_not_complete() {
        let [node1, node2]: [HostName; 2] = ["node1", "node2"].map(|name| name.parse().unwrap());
        let missing = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (key, front_proxy) = (
            missing(&["ca.key", "sa.pub"]),
            missing(&["front-proxy-ca.key"]),
        );
        let found = vec![(&node1, key), (&node2, front_proxy)];
        let of = |cluster: &Cluster, found: &ControlPlanes<'_>| {
            gaps(cluster, true, found, &BTreeMap::new(), |_| true)
                .into_iter()
                .filter(|gap| gap.text.contains("authorities"))
                .map(|gap| gap.within(INCOMPLETE).to_string())
                .collect::<String>()
        };
        insta::assert_snapshot!(of(&cluster(""), &found), @"
        the backup is not complete: no control plane has all authorities of kubeadm in /etc/kubernetes/pki, so new hosts cannot be restored from the backup: node1 does not have ca.key, sa.pub; node2 does not have front-proxy-ca.key
        hint: put these files on one control plane, as regular files; if a site keeps them elsewhere on purpose, put them there while it creates one backup: incomplete backups do not remove that one
        ");
        let complete = vec![found[0].clone(), (&node2, Vec::new())];
        assert_eq!(of(&cluster(""), &complete), "");
        // Without kubeadm, the state directory has them.
        assert_eq!(of(&cluster_of_units(), &found), "");
    }

    /// `backup verify` left out the trial restore, without a warning before.
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
                "node2: the backup has no etcdutl for arm64, so no machine of this kind can verify it",
                "node3: its architecture is not known, so the backup may have no etcdutl for this host; `arch` of the host in \
                 the cluster file states it"
            ]
        );
        // A host that is off must not make each backup incomplete.
        assert_eq!(of(true, &["node1"], &[("node1", "x86_64")]), [""; 0]);
    }
}

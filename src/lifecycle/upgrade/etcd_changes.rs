//! Which versions of etcd an upgrade brings, and whether the present ones allow them
//! (<https://etcd.io/docs/latest/upgrades/>).

use std::collections::{BTreeMap, BTreeSet};

use kubexm_bundle::Lock;
use kubexm_config::Cluster;
use kubexm_config::cluster::Etcd;
use kubexm_deploy::etcd_version;
use kubexm_deploy::upgrade_path::Hop;
use kubexm_etcd::{Members, Refusal, Status, members, peer_url, refusal};
use kubexm_host::Facts;
use kubexm_preflight::Finding;
use kubexm_types::{FindingKind, HostName, Version};

/// Returns how the hops change the version of each member that answers, in the order of the hops for each of them.
pub(super) fn changes(
    etcd: &Members,
    cluster: &Cluster,
    (lock, facts): (&Lock, &BTreeMap<HostName, Facts>),
    hops: &[Hop],
) -> Vec<Change> {
    // kubeadm keeps a newer etcd. As units, kubexm would replace it.
    let keeps_newer = matches!(cluster.etcd, Etcd::Kubeadm { .. });
    let mut changes = Vec::new();
    for spec in members(cluster) {
        let peer = peer_url(spec);
        let member = etcd.at(&peer).and_then(|listed| etcd.status(listed));
        let mut present = member.and_then(Status::version);
        let arch = facts.get(&spec.name).and_then(Facts::arch);
        for hop in hops {
            let (Some(from), Some(arch)) = (present.clone(), arch) else {
                break;
            };
            let Some(to) = etcd_version(cluster, lock, &hop.version, arch) else {
                continue;
            };
            present = Some(from.clone().max(to.clone()));
            if to == from || keeps_newer && to < from {
                continue;
            }
            changes.push(Change {
                host: spec.name.clone(),
                kubernetes: hop.version.clone(),
                from,
                to,
            });
        }
    }
    changes
}

/// Another version of a member of etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub host: HostName,
    /// The version of the hop that brings it.
    pub kubernetes: Version,
    pub from: Version,
    pub to: Version,
}

impl Change {
    /// Returns whether an older etcd cannot read the data afterwards.
    pub(super) fn is_minor(&self) -> bool {
        self.from.major_minor() != self.to.major_minor()
    }
}

/// Returns which changes of versions are not possible: the first one of each member.
pub(super) fn refused(changes: &[Change]) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for change in changes {
        let Some(refusal) = refusal(&change.from, &change.to) else {
            continue;
        };
        let (cause, hint) = explained(refusal, &change.from);
        if seen.insert(&change.host) {
            findings.push(Finding::new(
                FindingKind::Versions,
                &change.host,
                true,
                format!(
                    "Kubernetes {} brings etcd {}, and this member has {}: {cause}",
                    change.kubernetes, change.to, change.from
                ),
                &hint,
            ));
        }
    }
    findings
}

/// Returns why a member cannot go from one version to another, and what helps.
fn explained(refusal: Refusal, present: &Version) -> (String, String) {
    match refusal {
        Refusal::Older => (
            "an older etcd cannot read the data of a newer one".to_owned(),
            format!("build the bundle with etcd {present} or a newer one"),
        ),
        Refusal::SkipsMinor => (
            "etcd goes through each minor version".to_owned(),
            "add the versions of Kubernetes in between to the bundle".to_owned(),
        ),
        Refusal::Unsafe { from, why } => (
            format!("the way begins at {from}: {why}"),
            format!(
                "first bring all members to {from} or a newer patch version: with a patch upgrade of Kubernetes whose bundle \
                 has it, or with etcd.local.imageTag of kubeadm"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::etcd::tests::{cluster, list, state, status};
    use super::*;

    /// Returns how a member of 3.6.8 changes with a bundle that has this version of etcd, as a unit or as a static pod.
    fn changed(version: &str, cluster: &Cluster) -> Vec<String> {
        let lock = format!(
            "lockVersion: 1\nname: x\nkubernetes: [1.36.3]\narchitectures: [amd64]\nfiles:\n- {{component: etcd, version: {version}, \
             arch: amd64, fileName: e, url: 'https://example.org/e', size: 1, digest: 'sha256:{}', checksum: pinned, format: tar-gz}}\n\
             images: []\npackages: []\nkubeadm:\n- {{version: 1.36.3, images: ['registry.k8s.io/etcd:{version}-0']}}\n",
            "0".repeat(64)
        );
        let lock: Lock = serde_saphyr::from_str(&lock).unwrap();
        let facts = Facts {
            machine: "x86_64".to_owned(),
            ..Facts::default()
        };
        let facts = BTreeMap::from([("node1".parse().unwrap(), facts)]);
        let hop = Hop {
            version: Version::new(1, 36, 3),
            workers: BTreeSet::new(),
        };
        let state = state(&[list(""), status(1, "")]);
        let changes = changes(&state, cluster, (&lock, &facts), &[hop]);
        let refused = refused(&changes);
        let refused = refused.iter().map(|finding| finding.what.clone());
        let changes = changes
            .iter()
            .map(|change| format!("{} {} -> {}", change.host, change.from, change.to));
        changes.chain(refused).collect()
    }

    #[test]
    fn versions_of_members_change_with_the_bundle() {
        let units = cluster();
        assert_eq!(changed("3.6.16", &units), ["node1 3.6.8 -> 3.6.16"]);
        assert_eq!(changed("3.6.8", &units), [""; 0]);
        let all = changed("3.5.33", &units);
        assert!(
            all[1].starts_with("Kubernetes 1.36.3 brings etcd 3.5.33, and this member has 3.6.8"),
            "{all:?}"
        );
        let mut pods = cluster();
        pods.etcd = Etcd::Kubeadm {
            extra_args: BTreeMap::new(),
            data_dir: "/var/lib/etcd".parse().unwrap(),
            cert_sans: Vec::new(),
        };
        assert_eq!(changed("3.6.16", &pods), ["node1 3.6.8 -> 3.6.16"]);
        assert_eq!(changed("3.5.33", &pods), [""; 0]);
    }
}

//! Refuses an etcd as systemd units that is older than the data of a member: after a rollback in place, members have a newer
//! etcd than the bundle of the former version.

use std::collections::BTreeMap;

use kubexm_bundle::Lock;
use kubexm_config::Cluster;
use kubexm_config::cluster::Etcd;
use kubexm_deploy::etcd_version;
use kubexm_etcd::is_older;
use kubexm_host::Facts;
use kubexm_host::facts::Setting;
use kubexm_preflight::Finding;
use kubexm_types::{FindingKind, HostName, Version};

/// Returns the members that run a newer minor version of etcd than the one that an install from the bundle gives them.
pub fn findings(cluster: &Cluster, facts: &BTreeMap<HostName, Facts>, lock: &Lock) -> Vec<Finding> {
    // kubeadm keeps a newer etcd.
    if !matches!(cluster.etcd, Etcd::Systemd { .. }) {
        return Vec::new();
    }
    let older = facts.iter().filter_map(|(name, facts)| {
        let present: Version = facts.applied(Setting::EtcdVersion).next()?.parse().ok()?;
        let given = etcd_version(cluster, lock, &cluster.kubernetes.version, facts.arch()?)?;
        is_older(&given, &present).then(|| {
            let what = format!(
                "the bundle brings etcd {given}, and the member of etcd on this host runs {present}: an older etcd cannot read \
                 the data of a newer one"
            );
            let (major, minor) = present.major_minor();
            let hint = format!(
                "complete the upgrade with kubexm upgrade and the newer bundle, or pass a bundle whose etcd is {major}.{minor} \
                 or newer"
            );
            Finding::new(FindingKind::Versions, name, true, what, &hint)
        })
    });
    older.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{cluster_with_etcd as cluster, lock_with_etcd as lock};

    fn found(kind: &str, bundle: &str, members: &[&str]) -> Vec<String> {
        let of_member = |(at, version): (usize, &&str)| {
            let mut facts = Facts {
                machine: "x86_64".to_owned(),
                ..Facts::default()
            };
            // A new host has no etcd.
            if !version.is_empty() {
                let versions = [(*version).to_owned()].into();
                facts.applied.insert(Setting::EtcdVersion, versions);
            }
            (format!("node{}", at + 1).parse().unwrap(), facts)
        };
        let facts = members.iter().enumerate().map(of_member).collect();
        let found = findings(&cluster(kind), &facts, &lock(bundle));
        found.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn older_etcd_is_refused_on_the_data_of_a_newer_one() {
        assert_eq!(
            found("systemd", "3.5.33", &["3.6.16", "3.5.33", ""]),
            [
                "node1: the bundle brings etcd 3.5.33, and the member of etcd on this host runs 3.6.16: an older etcd cannot read \
                 the data of a newer one\n  hint: complete the upgrade with kubexm upgrade and the newer bundle, or pass a bundle \
                 whose etcd is 3.6 or newer"
            ]
        );
        // A patch version can read the data of a later one.
        assert_eq!(found("systemd", "3.6.8", &["3.6.16", ""]), [""; 0]);
        assert_eq!(found("systemd", "3.6.16", &["3.5.33"]), [""; 0]);
        assert_eq!(found("kubeadm", "3.5.33", &["3.6.16"]), [""; 0]);
    }
}

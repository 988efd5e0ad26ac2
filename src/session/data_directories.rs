//! The directories in which a cluster has data on its hosts.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_host::Facts;
use kubexm_preflight::Finding;
use kubexm_types::{FindingKind, HostName};

/// The directory of the kubelet. No setting of a cluster file moves it.
const KUBELET: &str = "/var/lib/kubelet";
/// The directory of logs. Those of pods and of the audit are there.
const LOGS: &str = "/var/log";
/// The directory of kubexm's own records on a host.
const RECORDS: &str = "/var/lib/kubexm";

/// A directory of the cluster on a host.
pub struct Directory<'a> {
    pub path: &'a str,
    /// Whether the kubelet evicts pods if its file system has little space.
    pub is_of_kubelet: bool,
}

/// Returns the directories with data on any host.
pub fn paths(cluster: &Cluster) -> Vec<String> {
    let mut paths = vec![
        KUBELET.to_owned(),
        LOGS.to_owned(),
        cluster.runtime.data_directory().to_owned(),
        cluster.registry.data_dir.to_string(),
    ];
    paths.extend(cluster.etcd.data_directory().map(str::to_owned));
    paths.push(RECORDS.to_owned());
    paths
}

/// Returns the directories with data on this host.
pub fn of<'a>(cluster: &'a Cluster, host: &HostSpec) -> Vec<Directory<'a>> {
    let mut directories = Vec::new();
    let mut add = |path, is_of_kubelet| {
        directories.push(Directory {
            path,
            is_of_kubelet,
        });
    };
    if cluster.is_node(&host.name) {
        add(KUBELET, true);
        add(cluster.runtime.data_directory(), true);
        add(LOGS, false);
    }
    if let Some(path) = cluster.etcd.data_directory()
        && kubexm_etcd::has_member(cluster, &host.name)
    {
        add(path, false);
    }
    if cluster.roles.registry.contains(&host.name) && cluster.registry.external.is_none() {
        add(cluster.registry.data_dir.as_str(), false);
    }
    directories
}

fn unmounted_paths<'a>(
    cluster: &'a Cluster,
    host: &HostSpec,
    facts: &Facts,
) -> impl Iterator<Item = &'a str> {
    let directories = of(cluster, host).into_iter().map(|one| one.path);
    let paths = directories.chain([RECORDS]);
    paths.filter(|path| facts.unmounted.contains_key(*path))
}

/// Returns what is wrong on a host, and a hint, if directories belong to file systems of `/etc/fstab` that are not mounted.
/// Programs would write below the mount point, and an etcd without its data becomes a new member.
pub fn unmounted(cluster: &Cluster, host: &HostSpec, facts: &Facts) -> Option<(String, String)> {
    let paths: Vec<&str> = unmounted_paths(cluster, host, facts).collect();
    if paths.is_empty() {
        return None;
    }
    let points: BTreeSet<&str> = paths
        .iter()
        .map(|path| facts.unmounted[*path].as_str())
        .collect();
    let points: Vec<&str> = points.into_iter().collect();
    let what = format!(
        "{} of /etc/fstab is not mounted, so that {} would be on another file system",
        points.join(", "),
        paths.join(", ")
    );
    let hint = format!(
        "run `mount {}` on the host, and look at `dmesg` if it fails; if the disk is not used any more, remove its line \
         from /etc/fstab",
        points.first().unwrap_or(&"-a")
    );
    Some((what, hint))
}

/// Returns the findings about directories whose file system is not mounted.
pub fn findings(cluster: &Cluster, facts: &BTreeMap<HostName, Facts>) -> Vec<Finding> {
    let hosts = cluster.hosts.iter();
    let findings = hosts.filter_map(|host| {
        let facts = facts.get(&host.name)?;
        let (what, hint) = unmounted(cluster, host, facts)?;
        // A cluster works without its former logs.
        let fatal = unmounted_paths(cluster, host, facts).any(|path| path != LOGS);
        let kind = FindingKind::FileSystems;
        Some(Finding::new(kind, &host.name, fatal, what, &hint))
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::cluster_of_two as cluster;

    #[test]
    fn directory_whose_file_system_is_not_mounted_stops_an_install_where_it_is_used() {
        let cluster = cluster("");
        let of = |path: &str, point: &str| (path.to_owned(), point.to_owned());
        let facts = Facts {
            unmounted: [
                of("/var/lib/etcd", "/var/lib/etcd"),
                of("/usr/local", "/usr"),
            ]
            .into(),
            ..Facts::default()
        };
        let hosts = cluster.hosts.iter();
        let facts = hosts.map(|host| (host.name.clone(), facts.clone()));
        let found = findings(&cluster, &facts.collect());
        assert!(found.iter().all(|one| one.fatal));
        // The worker has no member of etcd.
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(found.join("\n"), @"
        node1: /var/lib/etcd of /etc/fstab is not mounted, so that /var/lib/etcd would be on another file system
          hint: run `mount /var/lib/etcd` on the host, and look at `dmesg` if it fails; if the disk is not used any more, remove its line from /etc/fstab
        ");
    }

    #[test]
    fn file_system_of_logs_that_is_not_mounted_is_a_warning() {
        let cluster = cluster("");
        let fatal = |paths: &[&str]| -> Vec<bool> {
            let paths = paths
                .iter()
                .map(|path| ((*path).to_owned(), "/data".to_owned()));
            let facts = Facts {
                unmounted: paths.collect(),
                ..Facts::default()
            };
            let facts = [(cluster.hosts[0].name.clone(), facts)].into();
            let findings = findings(&cluster, &facts);
            findings.into_iter().map(|one| one.fatal).collect()
        };
        assert_eq!(fatal(&[LOGS]), [false]);
        assert_eq!(fatal(&[LOGS, KUBELET]), [true]);
    }
}

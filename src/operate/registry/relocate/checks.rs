//! What a move looks at on the hosts, besides what every preflight does.

use std::collections::BTreeMap;

use crate::registry::catalog::failed;
use kubexm_config::Cluster;
use kubexm_engine::reset::HostReset;
use kubexm_engine::seed::{self, Missing, RegistryContent};
use kubexm_host::Facts;
use kubexm_preflight::Finding;
use kubexm_session::CommandError;
use kubexm_session::begun::MoveRecord;
use kubexm_session::session::Hosts;
use kubexm_types::{FindingKind, HostName};

/// Returns the hosts from which images come: those with former registries. The directory of a new one may have remains of
/// another registry. It counts only if all images were copied there, and no former registry answers.
pub(super) fn sources(record: &MoveRecord, facts: &BTreeMap<HostName, Facts>) -> Vec<HostName> {
    let serving = |names: &[HostName]| -> Vec<HostName> {
        let is_there = |name: &&HostName| facts.get(*name).is_some_and(Facts::has_registry);
        names.iter().filter(is_there).cloned().collect()
    };
    let former = serving(&record.before);
    if former.is_empty() && record.is_copied {
        serving(&record.to)
    } else {
        former
    }
}

/// Returns what each new registry does not have. Blobs that an interrupted run has copied are not part of it.
///
/// # Errors
/// A host was lost, or cannot read the directory.
pub(super) async fn missing(
    cluster: &Cluster,
    record: &MoveRecord,
    hosts: &Hosts,
    content: &RegistryContent,
) -> Result<BTreeMap<HostName, Missing>, CommandError> {
    let mut all = BTreeMap::new();
    for name in &record.to {
        let Some(host) = hosts.get(name) else {
            continue;
        };
        let missing = seed::missing(host.as_ref(), &cluster.registry.data_dir, content).await;
        all.insert(name.clone(), missing.map_err(failed)?);
    }
    Ok(all)
}

/// Finds other programs that listen on the port of the registry, on hosts that get one. Preflight looks for them only on hosts
/// that are not in a cluster yet.
pub(super) fn ports_in_use(
    cluster: &Cluster,
    record: &MoveRecord,
    facts: &BTreeMap<HostName, Facts>,
) -> Vec<Finding> {
    let port = cluster.registry.port;
    let is_busy = |name: &&HostName| {
        let facts = facts.get(*name);
        facts.is_some_and(|facts| !facts.has_registry() && facts.listening.contains(&port))
    };
    let busy = record.to.iter().filter(is_busy).map(|name| {
        let what = format!("port {port} is in use, and the registry needs it");
        let hint = "stop the program that listens on it: ss -ltnp shows its name";
        Finding::new(FindingKind::Registry, name, true, what, hint)
    });
    busy.collect()
}

/// Returns facts without the lines of `/etc/hosts` that give the name of the registry the address of a former or of a new one,
/// if kubexm does not manage this file: its user changes the line while the move runs.
pub(super) fn without_names(
    cluster: &Cluster,
    record: &MoveRecord,
    facts: &BTreeMap<HostName, Facts>,
) -> BTreeMap<HostName, Facts> {
    let mut facts = facts.clone();
    if cluster.system.manage_hosts_file {
        return facts;
    }
    let hosts = record.before.iter().chain(&record.to);
    let hosts: Vec<_> = hosts.filter_map(|name| cluster.host(name)).collect();
    for facts in facts.values_mut() {
        facts.hosts_entries.retain(|(address, name)| {
            let mut of_registries = hosts.iter().flat_map(|host| host.internal_addresses.iter());
            !name.eq_ignore_ascii_case(cluster.registry.host_name.as_str())
                || !of_registries.any(|one| one == *address)
        });
    }
    facts
}

/// Returns whether a reset of the registry of a host leaves its images: kubexm removes only directories that it has created.
pub(super) fn keeps_images(reset: &HostReset, cluster: &Cluster) -> bool {
    let removal = format!("Remove {} with its content", cluster.registry.data_dir);
    reset.changes() > 0 && !reset.titles().any(|title| title == removal)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use kubexm_engine::plan::{Receipt, UndoLog};
    use kubexm_engine::steps::Undo;
    use kubexm_session::begun::MoveStage as Stage;
    use kubexm_session::example::{Site, cluster_with};

    fn names(hosts: &[&str]) -> Vec<HostName> {
        hosts.iter().map(|name| name.parse().unwrap()).collect()
    }

    /// Returns a move from node1 to node2.
    fn record(is_copied: bool) -> MoveRecord {
        MoveRecord {
            before: names(&["node1"]),
            from: names(&["node1"]),
            to: names(&["node2"]),
            stage: Stage::Begun,
            is_copied,
        }
    }

    fn facts(hosts: &[(&str, Facts)]) -> BTreeMap<HostName, Facts> {
        let hosts = hosts.iter().cloned();
        hosts
            .map(|(name, facts)| (name.parse().unwrap(), facts))
            .collect()
    }

    fn with_registry() -> Facts {
        Facts {
            registry_login: Some(true),
            ..Facts::default()
        }
    }

    #[test]
    fn images_come_from_a_new_registry_only_if_it_has_all_and_no_former_one_answers() {
        let both = facts(&[("node1", with_registry()), ("node2", with_registry())]);
        for is_copied in [false, true] {
            assert_eq!(
                sources(&record(is_copied), &both),
                names(&["node1"]),
                "{is_copied}"
            );
        }
        let new = facts(&[("node2", with_registry())]);
        assert_eq!(sources(&record(true), &new), names(&["node2"]));
        assert_eq!(sources(&record(false), &new), names(&[]));
    }

    #[test]
    fn program_on_the_port_of_a_new_registry_is_found() {
        let cluster = cluster_with("registry: {dataDir: /srv/registry}");
        let listens = |facts: Facts| Facts {
            receipt: true,
            listening: [5000].into(),
            ..facts
        };
        let found = |new: Facts| {
            let facts = facts(&[("node1", listens(with_registry())), ("node2", listens(new))]);
            let found = ports_in_use(&cluster, &record(false), &facts).into_iter();
            found
                .map(|finding| format!("{}: {}", finding.host, finding.what))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            found(Facts::default()),
            ["node2: port 5000 is in use, and the registry needs it"]
        );
        assert_eq!(
            found(with_registry()),
            [""; 0],
            "an interrupted run started it"
        );
    }

    /// The user changes the line between two runs of the move.
    #[test]
    fn both_addresses_of_the_registry_are_right_in_a_hosts_file_of_the_user() {
        let left = |section: &str, address: &str| {
            let cluster = cluster_with(section);
            let entry = Facts {
                hosts_entries: vec![(
                    address.parse().unwrap(),
                    "registry.kubexm.internal".to_owned(),
                )],
                ..Facts::default()
            };
            let facts = without_names(&cluster, &record(false), &facts(&[("node1", entry)]));
            facts
                .values()
                .map(|facts| facts.hosts_entries.len())
                .sum::<usize>()
        };
        let unmanaged = "system: {manageHostsFile: false}";
        assert_eq!(
            left(unmanaged, "192.0.2.11") + left(unmanaged, "192.0.2.12"),
            0
        );
        assert_eq!(left(unmanaged, "192.0.2.99"), 1);
        assert_eq!(left("system: {manageHostsFile: true}", "192.0.2.11"), 1);
    }

    #[tokio::test]
    async fn images_stay_in_a_directory_that_kubexm_did_not_create() {
        let cluster = cluster_with("registry: {dataDir: /srv/registry}");
        let site = Site::new();
        let host = &site.hosts[&"node1".parse::<HostName>().unwrap()];
        let reset = async || HostReset::read(host).await.unwrap();
        assert!(
            !keeps_images(&reset().await, &cluster),
            "nothing is reverted"
        );
        let receipt = Receipt::new(Arc::clone(host));
        let file = Undo::RemoveFile {
            path: "/etc/kubexm/registry/config.yml".parse().unwrap(),
            folders: Vec::new(),
        };
        receipt
            .record("file", file.to_value().unwrap())
            .await
            .unwrap();
        assert!(keeps_images(&reset().await, &cluster));
        let directory = Undo::RemoveDirectory {
            path: "/srv/registry".parse().unwrap(),
        };
        receipt
            .record("folders", directory.to_value().unwrap())
            .await
            .unwrap();
        assert!(!keeps_images(&reset().await, &cluster));
    }
}

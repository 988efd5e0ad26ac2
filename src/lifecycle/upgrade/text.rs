//! The plan of an upgrade, for people.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use super::etcd_changes::Change;
use super::runtime::Runtimes;
use super::saved::Saved;
use kubexm_config::Cluster;
use kubexm_config::cluster::Etcd;
use kubexm_deploy::upgrade_path::Hop;
use kubexm_engine::plan::{Plan, Task};
use kubexm_session::begun::RollbackRecord;
use kubexm_types::{HostName, Version};

/// The module of tasks that only an upgrade has.
const MODULE: &str = "upgrade";

/// Returns the beginning of the plan.
pub(super) fn head(cluster: &Cluster, from: &Version, hops: &[Hop], continues: bool) -> String {
    let versions = hops.iter().map(|hop| hop.version.to_string());
    let way: Vec<String> = std::iter::once(from.to_string()).chain(versions).collect();
    let continues = if continues {
        " (continues an interrupted upgrade)"
    } else {
        ""
    };
    format!(
        "upgrade of the cluster '{}': {}{continues}",
        cluster.name,
        way.join(" -> ")
    )
}

/// Returns that the upgrade ends a rollback.
pub(super) fn given_up(rollback: &RollbackRecord) -> String {
    format!(
        "the rollback to Kubernetes {} that has begun has replaced nothing, and ends: its files on hosts are removed first",
        rollback.to
    )
}

/// Returns what is saved before a hop. An interrupted run can have `saved` it.
pub(super) fn archive(state: &Path, cluster: &Cluster, saved: Option<&Saved>) -> String {
    let archive = state.join("archive");
    let etcd = match cluster.etcd {
        Etcd::External { .. } => {
            "keys and certificates; kubexm saves no snapshot of an external etcd"
        }
        Etcd::Kubeadm { .. } | Etcd::Systemd { .. } => "a snapshot of etcd, keys and certificates",
    };
    match saved {
        Some(saved) if !saved.is_untouched => {
            let time = saved
                .time()
                .map_or(String::new(), |time| format!(", of {time}"));
            let folder = saved.hop.archive.display();
            format!("keep what the interrupted run has saved in {folder}{time}")
        }
        Some(_) => format!(
            "save in {}: {etcd}; nothing has changed since the interrupted run saved them",
            archive.display()
        ),
        None => format!("save in {}: {etcd}", archive.display()),
    }
}

/// Returns a hop: what changes on each node, in order. `plans` are those of control planes and of workers. The first plan changes
/// the images of the `network`.
pub(super) fn hop(
    hop: &Hop,
    archive: &str,
    members: &[Change],
    plans: &[Plan],
    (runtimes, network): (&mut Runtimes, &mut Vec<String>),
) -> String {
    let mut text = format!("Kubernetes {}\n", hop.version);
    let _ = writeln!(text, "  this machine\n    - {archive}");
    let members: Vec<&Change> = members
        .iter()
        .filter(|change| change.kubernetes == hop.version)
        .collect();
    if !members.is_empty() {
        text.push_str("  members of etcd, one after another\n");
    }
    for change in members {
        let _ = writeln!(
            text,
            "    - {}: etcd {} -> {}",
            change.host, change.from, change.to
        );
    }
    let mut seen = BTreeSet::new();
    for plan in plans {
        nodes(&mut text, plan, &mut seen, runtimes);
        let _ = writeln!(
            text,
            "  all hosts of this plan\n    - apply the cluster file, as an install does"
        );
        for line in network.drain(..) {
            let _ = writeln!(text, "    - {line}");
        }
    }
    text
}

/// Adds the steps of each node, in the order of the nodes.
pub(super) fn nodes(
    text: &mut String,
    plan: &Plan,
    seen: &mut BTreeSet<HostName>,
    runtimes: &mut Runtimes,
) {
    let tasks = || plan.tasks.iter().filter(|task| task.module == MODULE);
    for end in tasks() {
        // Every node has one of these tasks, and a drain only where other nodes can run its pods.
        let Some(node) = end.name.strip_prefix("return-") else {
            continue;
        };
        let Ok(host) = node.parse::<HostName>() else {
            continue;
        };
        if !seen.insert(host.clone()) {
            continue;
        }
        let _ = writeln!(text, "  {host}");
        let is_drain = |name: &str| name == format!("drain-{node}");
        let is_node = |name: &str, on: &HostName| name == "node" && *on == host;
        let described = |task: &Task| -> Vec<String> {
            let steps = task.steps.iter();
            steps.map(|step| step.describe().to_owned()).collect()
        };
        let drain = tasks().filter(|task| is_drain(&task.name));
        let mut lines: Vec<String> = drain.flat_map(described).collect();
        lines.extend(runtimes.take(&host));
        let node = tasks().filter(|task| is_node(&task.name, &task.host));
        lines.extend(node.chain([end]).flat_map(described));
        for line in lines {
            let _ = writeln!(text, "    - {line}");
        }
    }
}

/// Returns which applications follow the cluster; `None` without one.
pub(super) fn applications(cluster: &Cluster) -> Option<String> {
    let names = cluster.applications.iter();
    let names: Vec<&str> = names.map(|one| one.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "applications, when all nodes are upgraded: {}",
            names.join(", ")
        )
    })
}

/// Returns what the user must know before the upgrade begins.
pub(super) fn end(
    (cluster, members): (&Cluster, &[Change]),
    from: &Version,
    hops: &[Hop],
    saved: Option<&Saved>,
) -> String {
    let minor = Version::major_minor;
    let newer = hops.iter().find(|hop| minor(&hop.version) != minor(from));
    let newest = members
        .iter()
        .filter(|change| change.is_minor())
        .map(|change| &change.to)
        .max();
    let kept = newest.map_or(String::new(), |version| {
        format!("\na rollback that loses nothing keeps etcd {version}: an older etcd cannot read its data")
    });
    let passed = saved.filter(|saved| saved.is_passed);
    let way_back = match (newer, passed) {
        (None, None) => {
            "way back: kubexm upgrade --rollback, until the upgrade is complete; nothing is lost"
                .to_owned()
        }
        (None, Some(saved)) => return passed_point(saved),
        (Some(hop), passed) => {
            let afterwards = match cluster.etcd.data_directory() {
                Some(_) => "it restores the snapshot of etcd, and loses every later change",
                None => {
                    "kubexm cannot roll back, because it saves no external etcd: take a snapshot of it yourself"
                }
            };
            let passed = passed.map_or(String::new(), |saved| passed_point(saved) + "\n");
            // The way back to an earlier version needs the snapshot.
            let to = if passed.is_empty() {
                String::new()
            } else {
                format!(" to Kubernetes {from}")
            };
            format!(
                "{passed}point of no return: when every API server runs Kubernetes {}. Before, kubexm upgrade --rollback{to} loses \
                 nothing. Afterwards {afterwards}.",
                hop.version
            )
        }
    };
    way_back + &kept
}

/// Returns that only a snapshot leads back before the last hop.
fn passed_point(saved: &Saved) -> String {
    let hop = &saved.hop;
    let way = match saved.time() {
        Some(time) => format!(
            "kubexm upgrade --rollback to Kubernetes {} restores the snapshot of etcd of {time}, and loses every later change",
            hop.former
        ),
        None => format!(
            "kubexm cannot go back to Kubernetes {}, because its archive has no snapshot of etcd",
            hop.former
        ),
    };
    format!(
        "the point of no return is passed: every API server runs Kubernetes {} or newer. {way}.",
        hop.version
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upgrade::rollback::archive::tests::former;
    use crate::upgrade::rollback::way::Begun;

    fn cluster(etcd: &str) -> Cluster {
        kubexm_config::example::cluster("", &format!("etcd: {etcd}"))
    }

    #[test]
    fn point_of_no_return_depends_on_the_snapshot() {
        let from = Version::new(1, 35, 4);
        let hop = |version| Hop {
            version,
            workers: BTreeSet::new(),
        };
        let own = cluster("{type: kubeadm}");
        let patch = end((&own, &[]), &from, &[hop(Version::new(1, 35, 5))], None);
        assert!(patch.ends_with("nothing is lost"), "{patch}");
        let minor = [hop(Version::new(1, 36, 3))];
        let text = end((&own, &[]), &from, &minor, None);
        assert!(text.contains("restores the snapshot of etcd"), "{text}");
        let external = cluster(
            "{type: external, external: {endpoints: [\"https://192.0.2.9:2379\"], caFile: /etc/hosts, certFile: /etc/hosts, keyFile: /etc/hosts}}",
        );
        let text = end((&external, &[]), &from, &minor, None);
        assert!(
            text.contains("Afterwards kubexm cannot roll back"),
            "{text}"
        );
        assert!(!text.contains("restores"), "{text}");
    }

    /// Returns the archive of a hop from 1.35.4 to 1.36.3.
    fn saved(is_passed: bool, is_untouched: bool) -> Saved {
        Saved {
            hop: Begun {
                former: Version::new(1, 35, 4),
                version: Version::new(1, 36, 3),
                archive: "s/archive/1".into(),
            },
            former: Some(former("3.6.8", b"")),
            is_passed,
            is_untouched,
        }
    }

    #[test]
    fn continued_upgrade_states_that_its_point_of_no_return_is_passed() {
        let own = cluster("{type: kubeadm}");
        let hop = |version| Hop {
            version,
            workers: BTreeSet::new(),
        };
        // All API servers are newer, and workers are left.
        let last = [hop(Version::new(1, 36, 3))];
        let end = |hops: &[Hop], saved| {
            super::end((&own, &[]), &Version::new(1, 36, 3), hops, Some(&saved))
        };
        let text = end(&last, saved(true, false));
        let expected = "the point of no return is passed: every API server runs Kubernetes 1.36.3 or newer. kubexm upgrade --rollback to \
                        Kubernetes 1.35.4 restores the snapshot of etcd of 2026-11-26T06:59:47Z (";
        assert!(text.starts_with(expected), "{text}");
        assert!(!text.contains("nothing is lost"), "{text}");
        let next = [hop(Version::new(1, 37, 1))];
        let text = end(&next, saved(true, false));
        assert!(text.starts_with(expected), "{text}");
        let later = "\npoint of no return: when every API server runs Kubernetes 1.37.1. Before, kubexm upgrade --rollback to \
                     Kubernetes 1.36.3 loses nothing.";
        assert!(text.contains(later), "{text}");
        let text = end(&last, saved(false, false));
        assert!(text.ends_with("nothing is lost"), "{text}");
    }

    #[test]
    fn plan_of_a_continued_upgrade_states_the_age_of_its_archive() {
        let own = cluster("{type: kubeadm}");
        let archive = |saved: Option<Saved>| super::archive(Path::new("s"), &own, saved.as_ref());
        let new = "save in s/archive: a snapshot of etcd, keys and certificates";
        assert_eq!(archive(None), new);
        assert!(archive(Some(saved(false, true))).starts_with(new));
        let kept = archive(Some(saved(false, false)));
        let expected =
            "keep what the interrupted run has saved in s/archive/1, of 2026-11-26T06:59:47Z (";
        assert!(kept.starts_with(expected), "{kept}");
        assert!(kept.ends_with(" ago)"), "{kept}");
    }

    #[test]
    fn plan_names_members_that_get_another_etcd() {
        let own = cluster("{type: kubeadm}");
        let change = Change {
            host: "node1".parse().unwrap(),
            kubernetes: Version::new(1, 36, 3),
            from: Version::new(3, 5, 33),
            to: Version::new(3, 6, 16),
        };
        let step = Hop {
            version: Version::new(1, 36, 3),
            workers: BTreeSet::new(),
        };
        let changes = [change];
        let runtimes = &mut Runtimes::default();
        let network = vec!["ghcr.io/a/b v1 -> v2".to_owned()];
        let changed = (runtimes, &mut network.clone());
        let text = hop(&step, "save", &changes, &[], changed);
        assert!(
            text.ends_with("    - node1: etcd 3.5.33 -> 3.6.16\n"),
            "{text}"
        );
        let none = &mut Runtimes::default();
        let plans = [Plan { tasks: vec![] }, Plan { tasks: vec![] }];
        let changed = (none, &mut network.clone());
        let text = hop(&step, "save", &[], &plans, changed);
        assert_eq!(text.matches("v1 -> v2").count(), 1, "{text}");
        let text = end((&own, &changes), &Version::new(1, 36, 1), &[step], None);
        assert!(text.contains("keeps etcd 3.6.16"), "{text}");
    }
}

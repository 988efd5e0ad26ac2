//! The plan of an upgrade, for people.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use super::etcd_changes::Change;
use super::path::Hop;
use super::runtime::Runtimes;
use kubexm_config::Cluster;
use kubexm_config::cluster::Etcd;
use kubexm_engine::plan::{Plan, Task};
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

/// Returns a hop: what changes on each node, in order. `plans` are those of control planes and of workers. The first plan changes
/// the images of the `network`.
pub(super) fn hop(
    hop: &Hop,
    state: &Path,
    (cluster, members): (&Cluster, &[Change]),
    plans: &[Plan],
    (runtimes, network): (&mut Runtimes, &mut Vec<String>),
) -> String {
    let mut text = format!("Kubernetes {}\n", hop.version);
    let archive = state.join("archive");
    let etcd = match cluster.etcd {
        Etcd::External { .. } => {
            "keys and certificates; kubexm saves no snapshot of an external etcd"
        }
        Etcd::Kubeadm { .. } | Etcd::Systemd { .. } => "a snapshot of etcd, keys and certificates",
    };
    let _ = writeln!(
        text,
        "  this machine\n    - save in {}: {etcd}",
        archive.display()
    );
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

/// Returns what the user must know before the upgrade begins.
pub(super) fn end(
    (cluster, members): (&Cluster, &[Change]),
    from: &Version,
    hops: &[Hop],
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
    let way_back = match newer {
        None => {
            "way back: kubexm upgrade --rollback, until the upgrade is complete; nothing is lost"
                .to_owned()
        }
        Some(hop) => {
            let afterwards = match cluster.etcd.data_directory() {
                Some(_) => "it restores the snapshot of etcd, and loses every later change",
                None => {
                    "kubexm cannot roll back, because it saves no external etcd: take a snapshot of it yourself"
                }
            };
            format!(
                "point of no return: when every API server runs Kubernetes {}. Before, kubexm upgrade --rollback loses \
                 nothing. Afterwards {afterwards}.",
                hop.version
            )
        }
    };
    way_back + &kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(etcd: &str) -> Cluster {
        let text = format!(
            "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: example}}\nspec:\n  hosts: [{{name: node1, address: 192.0.2.11}}]\n  \
             roleGroups: {{control-plane: [node1]}}\n  kubernetes: {{version: 1.36.3}}\n  etcd: {etcd}\n"
        );
        kubexm_config::parse_cluster("example", &text).unwrap()
    }

    #[test]
    fn point_of_no_return_depends_on_the_snapshot() {
        let from = Version::new(1, 35, 4);
        let hop = |version| Hop {
            version,
            workers: BTreeSet::new(),
        };
        let own = cluster("{type: kubeadm}");
        let patch = end((&own, &[]), &from, &[hop(Version::new(1, 35, 5))]);
        assert!(patch.ends_with("nothing is lost"), "{patch}");
        let minor = [hop(Version::new(1, 36, 3))];
        let text = end((&own, &[]), &from, &minor);
        assert!(text.contains("restores the snapshot of etcd"), "{text}");
        let external = cluster(
            "{type: external, external: {endpoints: [\"https://192.0.2.9:2379\"], caFile: /etc/hosts, certFile: /etc/hosts, keyFile: /etc/hosts}}",
        );
        let text = end((&external, &[]), &from, &minor);
        assert!(
            text.contains("Afterwards kubexm cannot roll back"),
            "{text}"
        );
        assert!(!text.contains("restores"), "{text}");
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
        let text = hop(&step, Path::new("s"), (&own, &changes), &[], changed);
        assert!(
            text.ends_with("    - node1: etcd 3.5.33 -> 3.6.16\n"),
            "{text}"
        );
        let none = &mut Runtimes::default();
        let plans = [Plan { tasks: vec![] }, Plan { tasks: vec![] }];
        let changed = (none, &mut network.clone());
        let text = hop(&step, Path::new("s"), (&own, &[]), &plans, changed);
        assert_eq!(text.matches("v1 -> v2").count(), 1, "{text}");
        let text = end((&own, &changes), &Version::new(1, 36, 1), &[step]);
        assert!(text.contains("keeps etcd 3.6.16"), "{text}");
    }
}

//! Hosts that are more than the cluster file says. A removal follows the roles of the file: without the right ones, it would
//! reset a member of etcd that etcd still counts.

use std::collections::BTreeMap;

use kubexm_config::Cluster;
use kubexm_deploy::removal::Leaving;
use kubexm_host::Facts;
use kubexm_host::facts::Setting;
use kubexm_preflight::Finding;
use kubexm_types::{FindingKind, HostName};

/// Returns a finding for each leaving host that has a role by its own facts, but not in the cluster file.
pub(super) fn findings(
    cluster: &Cluster,
    leaving: &[Leaving],
    facts: &BTreeMap<HostName, Facts>,
) -> Vec<Finding> {
    let findings = leaving.iter().filter_map(|host| {
        let facts = facts.get(&host.spec.name)?;
        finding(cluster, host, facts)
    });
    findings.collect()
}

fn finding(cluster: &Cluster, host: &Leaving, facts: &Facts) -> Option<Finding> {
    let runs_control_plane = facts.applied(Setting::ControlPlane).next().is_some();
    let member = facts.applied(Setting::Etcd).next();
    let mut is = Vec::new();
    let mut groups = Vec::new();
    if runs_control_plane && !host.is_control_plane {
        is.push("a control plane");
        groups.push("control-plane");
    } else if facts.is_node() && !host.is_node {
        is.push("a node");
        groups.push("worker");
    }
    if let Some(kind) = member.filter(|_| !host.has_member) {
        is.push("a member of etcd");
        groups.push(match kind {
            "kubeadm" => "control-plane",
            _ => "etcd",
        });
    }
    if is.is_empty() {
        return None;
    }
    groups.dedup();
    let what = format!(
        "is {}, and the cluster file does not say so: a removal by this file would leave a part of it in the cluster",
        is.join(" and ")
    );
    let hint = again(&host.spec.name, &groups);
    let hint = match member {
        Some(kind) if !host.has_member && kubexm_etcd::kind(cluster) != Some(kind) => {
            format!("set etcd.type to {kind} again, and {hint}")
        }
        _ => hint,
    };
    Some(Finding::new(
        FindingKind::Membership,
        &host.spec.name,
        true,
        what,
        &hint,
    ))
}

/// Returns how the cluster file gets roles of a host again.
pub(super) fn again(name: &HostName, groups: &[&str]) -> String {
    let groups: Vec<String> = groups
        .iter()
        .map(|group| format!("roleGroups.{group}"))
        .collect();
    format!(
        "list {name} in {} again, with all its roles, then run the same command",
        groups.join(" and ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_session::example::cluster_of_four;

    fn found(cluster: &Cluster, name: &str, facts: Facts) -> String {
        let name: HostName = name.parse().unwrap();
        let leaving = Leaving::of(cluster, cluster.host(&name).unwrap(), false);
        let found = findings(cluster, &[leaving], &BTreeMap::from([(name, facts)]));
        assert!(found.iter().all(|finding| finding.fatal));
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        found.join("\n")
    }

    fn installed(settings: &[(Setting, &str)]) -> Facts {
        let settings = settings.iter();
        Facts {
            joined: true,
            applied: settings
                .map(|(setting, value)| (*setting, [(*value).to_owned()].into()))
                .collect(),
            ..Facts::default()
        }
    }

    const STACKED: [(Setting, &str); 2] =
        [(Setting::ControlPlane, "yes"), (Setting::Etcd, "kubeadm")];

    /// Before, kubexm reset such a host without a question to etcd, which kept its member.
    #[test]
    fn control_plane_that_the_file_lists_as_a_worker_stays() {
        let cluster = cluster_of_four();
        insta::assert_snapshot!(found(&cluster, "node4", installed(&STACKED)), @"
        node4: is a control plane and a member of etcd, and the cluster file does not say so: a removal by this file would leave a part of it in the cluster
          hint: list node4 in roleGroups.control-plane again, with all its roles, then run the same command
        ");
        assert_eq!(found(&cluster, "node3", installed(&STACKED)), "");
        assert_eq!(found(&cluster, "node4", installed(&[])), "");
        assert_eq!(found(&cluster, "node3", Facts::default()), "");
    }

    #[test]
    fn host_without_a_role_in_the_file_stays() {
        let mut cluster = cluster_of_four();
        cluster.roles.worker.clear();
        insta::assert_snapshot!(found(&cluster, "node4", installed(&[])), @"
        node4: is a node, and the cluster file does not say so: a removal by this file would leave a part of it in the cluster
          hint: list node4 in roleGroups.worker again, with all its roles, then run the same command
        ");
        insta::assert_snapshot!(found(&cluster, "node4", installed(&STACKED)), @"
        node4: is a control plane and a member of etcd, and the cluster file does not say so: a removal by this file would leave a part of it in the cluster
          hint: list node4 in roleGroups.control-plane again, with all its roles, then run the same command
        ");
    }

    #[test]
    fn member_of_an_etcd_that_kubexm_runs_stays() {
        let cluster = cluster_of_four();
        let mut member = installed(&[(Setting::Etcd, "systemd")]);
        member.joined = false;
        insta::assert_snapshot!(found(&cluster, "node4", member), @"
        node4: is a member of etcd, and the cluster file does not say so: a removal by this file would leave a part of it in the cluster
          hint: set etcd.type to systemd again, and list node4 in roleGroups.etcd again, with all its roles, then run the same command
        ");
    }
}

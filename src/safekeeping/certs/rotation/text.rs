//! The plan and the result of a phase, for people.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::{OldPods, RotateOptions};
use kubexm_config::Cluster;
use kubexm_config::cluster::Etcd;
use kubexm_engine::plan::Plan;
use kubexm_session::begun::{Phase, RotationRecord};
use kubexm_types::Authority;

/// What follows a change of the CAs in every namespace.
const RESTARTS: &str = "then the workloads of kube-system and of the pod network restart";

/// Returns the plan of a phase.
pub(super) fn plan(
    cluster: &Cluster,
    record: &RotationRecord,
    options: &RotateOptions,
    plan: &Plan,
) -> String {
    let mut text = String::new();
    let title = record.title();
    let _ = if record.is_cancelled {
        writeln!(
            text,
            "the rotation of the {title} of the cluster '{}' is cancelled:",
            cluster.name
        )
    } else {
        writeln!(
            text,
            "rotation of the {title} of the cluster '{}', phase {} of 3 ({}): {}",
            cluster.name,
            record.phase.number(),
            record.phase,
            purpose(record.phase)
        )
    };
    let mut before = None;
    let mut seen = BTreeSet::new();
    // Approvals on the first control plane belong to the kubelets of other hosts.
    let tasks = plan.tasks.iter();
    for task in tasks.filter(|task| !task.name.starts_with("approve-")) {
        if before != Some(&task.host) {
            let _ = writeln!(text, "  {}", task.host);
            before = Some(&task.host);
            seen.clear();
        }
        for step in &task.steps {
            if seen.insert(step.id()) {
                let _ = writeln!(text, "    - {}", step.describe());
            }
        }
    }
    for line in consequences(cluster, record, options) {
        let _ = writeln!(text, "  {line}");
    }
    text.trim_end().to_owned()
}

fn purpose(phase: Phase) -> &'static str {
    match phase {
        Phase::Trust => "every program trusts both",
        Phase::Switch => "the new one signs",
        Phase::Remove => "no file has the former one any more",
    }
}

fn consequences(
    cluster: &Cluster,
    record: &RotationRecord,
    options: &RotateOptions,
) -> Vec<String> {
    let mut lines = Vec::new();
    if cluster.roles.control_plane.len() == 1 {
        lines.push(
            "the API server does not answer while it restarts: there is only one control plane"
                .to_owned(),
        );
    }
    let restarts_members = record.phase != Phase::Switch
        && record.authorities.contains(&Authority::Etcd)
        && matches!(cluster.etcd, Etcd::Systemd { .. });
    if restarts_members && cluster.etcd_hosts().len() < 3 {
        lines.push(
            "the API servers do not answer while a member of etcd restarts: it has fewer than three"
                .to_owned(),
        );
    }
    let has_ca = record.authorities.contains(&Authority::Kubernetes);
    if record.is_cancelled {
        return lines;
    }
    match record.phase {
        Phase::Trust => {
            if has_ca {
                lines.push(RESTARTS.to_owned());
            }
            lines.push(format!(
                "until phase 2 begins, {} --cancel ends the rotation",
                record.command()
            ));
        }
        Phase::Switch => {
            lines.push(
                "point of no return: once this phase has begun, the rotation cannot be cancelled"
                    .to_owned(),
            );
            if has_ca {
                lines.push(match options.old_pods {
                    OldPods::Refuse => "no pod runs that may know only the former CA".to_owned(),
                    OldPods::Restart => {
                        "workloads that may know only the former CA restart first".to_owned()
                    }
                    OldPods::Leave => {
                        "pods that know only the former CA lose the API server".to_owned()
                    }
                });
            }
        }
        Phase::Remove => {
            lines.push(
                "point of no return: the first host of this phase; only another rotation replaces the new one"
                    .to_owned(),
            );
            if has_ca {
                lines.push(
                    "kubeconfigs and certificates that the former CA signed become invalid, such as those of kubexm \
                     kubeconfig"
                        .to_owned(),
                );
                lines.push(RESTARTS.to_owned());
                lines.push(
                    "programs in other pods that read the CAs only at their start trust the former one until kubectl rollout \
                     restart"
                        .to_owned(),
                );
            }
            if record.authorities.contains(&Authority::ServiceAccounts) {
                lines.push("tokens that the former key signed become invalid".to_owned());
            }
        }
    }
    if let Some(next) = record.phase.next() {
        lines.push(format!(
            "after this phase: {} --phase {next}, {}",
            record.command(),
            purpose(next)
        ));
    }
    lines
}

/// Returns what is complete, and what comes next.
pub(super) fn end(record: &RotationRecord) -> String {
    let title = record.title();
    if record.is_cancelled {
        return format!("the rotation of the {title} is cancelled");
    }
    let Some(next) = record.phase.next() else {
        return format!("the rotation of the {title} is complete");
    };
    let mut text = format!(
        "phase {} of 3 ({}) is complete: {}\nnext: {} --phase {next}: {}",
        record.phase.number(),
        record.phase,
        purpose(record.phase),
        record.command(),
        purpose(next)
    );
    if record.phase == Phase::Trust {
        let _ = write!(text, "\nor: {} --cancel", record.command());
    }
    text
}

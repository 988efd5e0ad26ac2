//! The plan of a rollback, for people.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::way::Begun;
use crate::restore::text::{loss, names, replacement};
use crate::upgrade::former::Former;
use crate::upgrade::runtime::Runtimes;
use crate::upgrade::text;
use kubexm_config::Cluster;
use kubexm_engine::plan::Plan;
use kubexm_etcd::members;
use kubexm_session::begun::RollbackStage;
use kubexm_types::HostName;

/// Returns the plan of a rollback in place.
pub(super) fn in_place(
    cluster: &Cluster,
    hop: &Begun,
    plans: &[Plan],
    mut runtimes: Runtimes,
) -> String {
    let mut text = format!(
        "rollback of the cluster '{}': {} -> {}\nnothing is lost: the API servers keep running, and etcd keeps its data and its version\n",
        cluster.name, hop.version, hop.former
    );
    if plans.is_empty() {
        text.push_str("every program has the former version already: only the record of the upgrade is removed");
        return text;
    }
    let mut seen = BTreeSet::new();
    for plan in plans {
        text::nodes(&mut text, plan, &mut seen, &mut runtimes);
    }
    text.push_str("  all hosts of this plan\n    - apply the cluster file, as an install does");
    text
}

/// Returns the plan of a rollback with a snapshot, with what is lost.
pub(super) fn snapshot(
    cluster: &Cluster,
    hop: &Begun,
    former: &Former,
    stage: Option<RollbackStage>,
) -> String {
    let mut text = format!(
        "rollback of the cluster '{}': {} -> {}\nall API servers run Kubernetes {}, and may have stored objects that Kubernetes {} \
         cannot read: etcd goes back to the snapshot in {}",
        cluster.name,
        hop.version,
        hop.former,
        hop.version,
        hop.former,
        hop.archive.display()
    );
    loss(&mut text, &former.created, &former.kubernetes, &former.etcd);
    if let Some(stage) = stage {
        let place = if stage > RollbackStage::Prepare {
            "after its point of no return"
        } else {
            "before its point of no return"
        };
        let _ = write!(text, "\n  continues an interrupted rollback {place}");
    }
    let of_etcd = members(cluster).into_iter().map(|host| &host.name);
    let mut hosts: Vec<&HostName> = cluster.roles.control_plane.iter().collect();
    hosts.extend(of_etcd.filter(|name| !cluster.is_control_plane(name)));
    let programs = format!(
        "{}: put back the programs and files of Kubernetes {}",
        names(hosts),
        hop.former
    );
    replacement(&mut text, cluster, Some(&programs));
    let _ = write!(
        text,
        "\nat the end: drain the workers that run Kubernetes {} one after another, put back their programs, and apply the \
         cluster file",
        hop.version
    );
    text
}

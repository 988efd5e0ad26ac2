//! Whether a backup fits a cluster and its hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;

use kubexm_config::Cluster;
use kubexm_config::cluster::KubernetesKind;
use kubexm_engine::cluster::ClusterRecord;
use kubexm_etcd::{Client, members};
use kubexm_host::Facts;
use kubexm_host::facts::Membership;
use kubexm_safekeeping::backup::manifest::Manifest;
use kubexm_session::session::{HostErrors, Hosts};
use kubexm_session::{CommandError, FileError};
use kubexm_types::{HostName, Version};

/// How long members of etcd may take until they have a leader.
const ELECTION: Duration = Duration::from_secs(15);

/// What the hosts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Situation {
    /// All control planes and members of etcd are those of the cluster. Their data may be lost.
    Existing,
    /// No host has a cluster: all of them are new.
    New,
}

/// Compares a backup with the cluster file and with the record of the cluster in the state directory.
///
/// # Errors
/// The backup is one of another cluster, or of another version or deployment.
pub(super) fn same_cluster(
    backup: &Path,
    manifest: &Manifest,
    cluster: &Cluster,
    record: Option<&ClusterRecord>,
) -> Result<(), CommandError> {
    let refused = |cause: String, hint: &str| {
        let error = FileError::new("restore from the backup", backup, cause);
        Err(CommandError::from(error.hint(hint)))
    };
    let of = &manifest.cluster;
    if of.name.as_str() != cluster.name {
        let cause = format!(
            "it is of {of}, and the cluster file is of '{}'",
            cluster.name
        );
        return refused(
            cause,
            "pass a backup of this cluster, or the cluster file of that one",
        );
    }
    if let Some(record) = record
        && record.identity().id != of.id
    {
        let ours = record.identity();
        let cause = format!("it is of {of}, and the state directory is of {ours}");
        return refused(
            cause,
            "pass a backup of this cluster, or the state directory of that one with --state",
        );
    }
    let kind = match cluster.kubernetes.kind {
        KubernetesKind::Kubeadm => "kubeadm",
        KubernetesKind::Systemd => "systemd",
    };
    let etcd = kubexm_safekeeping::backup::etcd_deployment(cluster)?;
    if (
        manifest.deployment.as_str(),
        manifest.etcd.deployment.as_str(),
    ) != (kind, etcd)
    {
        let cause = format!(
            "there, Kubernetes ran with {} and etcd with {}; in the cluster file, these are {kind} and {etcd}",
            manifest.deployment, manifest.etcd.deployment
        );
        return refused(cause, "use the cluster file of the time of the backup");
    }
    let minor = |text: &str| {
        let version: Option<Version> = text.parse().ok();
        version.as_ref().map(Version::major_minor)
    };
    let (then, now) = (&manifest.kubernetes, cluster.kubernetes.version.to_string());
    if minor(then) != minor(&now) {
        let cause = format!("it is of Kubernetes {then}, and the cluster file has {now}");
        return refused(
            cause,
            "objects can have a form that another minor version cannot read; restore with a cluster file and a bundle of \
             that version, then run kubexm upgrade",
        );
    }
    Ok(())
}

/// Returns what the hosts are.
///
/// # Errors
/// A host is needed and cannot be reached, belongs to another cluster, or hosts of both kinds are mixed.
pub(super) fn of(
    manifest: &Manifest,
    cluster: &Cluster,
    facts: &BTreeMap<HostName, Facts>,
    unreachable: &HostErrors,
) -> Result<Situation, CommandError> {
    let needed = needed(cluster);
    let lost = unreachable.iter().filter(|(name, _)| needed.contains(name));
    let lost: Vec<String> = lost.map(|(_, error)| error.to_string()).collect();
    if !lost.is_empty() {
        return Err(CommandError::host(format!(
            "cannot restore: control planes and members of etcd must be reachable:\n  {}",
            lost.join("\n  ")
        ))
        .hint(
            "repair these hosts; or, if they are lost, restore with a cluster file without them, \
             and add new hosts with kubexm install afterwards",
        ));
    }
    let others: Vec<String> = facts
        .iter()
        .filter_map(|(name, facts)| match &facts.cluster {
            Membership::Cluster(theirs) if theirs.id != manifest.cluster.id => {
                Some(format!("{name} belongs to {theirs}"))
            }
            _ => None,
        })
        .collect();
    if !others.is_empty() {
        return Err(CommandError::refused(format!(
            "cannot restore a backup of {} on hosts of another cluster:\n  {}",
            manifest.cluster,
            others.join("\n  ")
        ))
        .hint("correct the addresses in the cluster file, or pass a backup of that cluster"));
    }
    let is_old = |name: &&HostName| {
        let facts = facts.get(*name);
        facts.is_some_and(|facts| facts.is_node() || facts.etcd_formed)
    };
    let (old, new): (Vec<&HostName>, Vec<&HostName>) = needed.iter().partition(is_old);
    match (old.is_empty(), new.is_empty()) {
        (_, true) => Ok(Situation::Existing),
        (true, _) => Ok(Situation::New),
        (false, false) => {
            let new: Vec<&str> = new.into_iter().map(HostName::as_str).collect();
            Err(CommandError::refused(format!(
                "cannot restore: these hosts have no cluster, and the others do: {}",
                new.join(", ")
            ))
            .hint(
                "restore with a cluster file without these hosts, and add them with kubexm \
                 install afterwards",
            ))
        }
    }
}

/// Checks that every member of etcd that works is one of the cluster file.
///
/// # Errors
/// Another one works. Its API server would go on with the former data, beside the restored ones.
pub(super) async fn no_other_members(cluster: &Cluster, hosts: &Hosts) -> Result<(), CommandError> {
    let Some(kind) = kubexm_etcd::kind(cluster) else {
        return Ok(());
    };
    let own: BTreeSet<String> = members(cluster)
        .into_iter()
        .map(kubexm_etcd::peer_url)
        .collect();
    let reachable = members(cluster)
        .into_iter()
        .filter_map(|host| hosts.get(&host.name));
    // Without a quorum, no member answers, and none can go on.
    let read = reachable.map(async |host| {
        let client = Client::new(host.as_ref(), kind, "list the members of etcd");
        client.members(Some(ELECTION)).await
    });
    let answers = join_all(read).await;
    for found in answers.into_iter().flatten() {
        let others = found.healthy_besides(&own);
        if !others.is_empty() {
            return Err(CommandError::refused(format!(
                "cannot restore: members of etcd work that the cluster file does not have: {}. \
                 They would go on with the former data beside the restored one",
                others.join(", ")
            ))
            .hint(
                "restore with a cluster file that has them; if they are lost, switch them off \
                 first",
            ));
        }
    }
    Ok(())
}

/// Checks, before control planes are installed again, that no worker belongs to the cluster still.
///
/// # Errors
/// A worker with kubeadm is a node: an install refuses to create a second cluster beside it.
pub(super) fn without_workers(
    cluster: &Cluster,
    facts: &BTreeMap<HostName, Facts>,
) -> Result<(), CommandError> {
    let nodes = facts.iter().filter(|(_, facts)| facts.is_node());
    let nodes: Vec<&str> = nodes.map(|(name, _)| name.as_str()).collect();
    if nodes.is_empty() || cluster.kubernetes.kind != KubernetesKind::Kubeadm {
        return Ok(());
    }
    Err(CommandError::refused(format!(
        "cannot restore: no control plane has a cluster, and these workers are nodes of it: {}",
        nodes.join(", ")
    ))
    .hint(
        "restore with a cluster file without these workers and with --other-hosts keep; then add them to \
         the file again, and run kubexm install",
    ))
}

/// Returns control planes and members of etcd.
fn needed(cluster: &Cluster) -> BTreeSet<HostName> {
    let members = members(cluster).into_iter().map(|host| &host.name);
    let all = members.chain(&cluster.roles.control_plane);
    all.cloned().collect()
}

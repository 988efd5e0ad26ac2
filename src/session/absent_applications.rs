//! Applications that neither the bundle nor the cluster has: commands refuse them before they change a host.

use std::collections::{BTreeMap, BTreeSet};

use crate::CommandError;
use crate::session::Hosts;
use kubexm_bundle::Lock;
use kubexm_config::Cluster;
use kubexm_deploy::objects::Server;
use kubexm_deploy::{MissingApplication, missing_applications};
use kubexm_host::{Facts, Host};
use kubexm_types::{HostName, ReleaseName};

/// Fails if neither the bundle nor the cluster has an application of the cluster file.
///
/// # Errors
/// Names what is missing. Also if the API server does not answer.
pub async fn check(cluster: &Cluster, lock: &Lock, host: &dyn Host) -> Result<(), CommandError> {
    refused(&missing_applications(cluster, lock, Server::of(host)).await?)
}

/// Fails if one of these applications is such a one.
///
/// # Errors
/// Names what is missing. Also if the API server does not answer.
pub async fn check_named(
    cluster: &Cluster,
    lock: &Lock,
    host: &dyn Host,
    names: &[ReleaseName],
) -> Result<(), CommandError> {
    let mut missing = missing_applications(cluster, lock, Server::of(host)).await?;
    missing.retain(|one| names.contains(&one.name));
    refused(&missing)
}

/// As [`check`], for a command that applies the applications of a bundle: another bundle can have the others. It fails only if the
/// bundle has none, or if one of its own needs such an application. Returns the others.
///
/// # Errors
/// Names what is missing. Also if the API server does not answer.
pub async fn check_needed(
    cluster: &Cluster,
    lock: &Lock,
    host: &dyn Host,
) -> Result<Vec<MissingApplication>, CommandError> {
    let missing = missing_applications(cluster, lock, Server::of(host)).await?;
    let (needed, others): (Vec<_>, Vec<_>) = missing.into_iter().partition(|one| one.is_needed);
    refused(&needed)?;
    Ok(others)
}

/// As [`check`], on a cluster that an install may have to repair: without an answer of an API server, the plan finds the same out
/// later. For a new cluster, a plan refuses.
///
/// # Errors
/// Names what is missing.
pub async fn check_before_install(
    cluster: &Cluster,
    lock: &Lock,
    (hosts, facts): (&Hosts, &BTreeMap<HostName, Facts>),
) -> Result<(), CommandError> {
    let is_node = |name: &&HostName| facts.get(*name).is_some_and(Facts::is_node);
    let mut names = cluster.roles.control_plane.iter().filter(is_node);
    let Some(host) = names.find_map(|name| hosts.get(name)) else {
        return Ok(());
    };
    let server = Server::of(host.as_ref());
    match missing_applications(cluster, lock, server).await {
        Ok(missing) => refused(&missing),
        Err(_) => Ok(()),
    }
}

fn refused(missing: &[MissingApplication]) -> Result<(), CommandError> {
    if missing.is_empty() {
        return Ok(());
    }
    let lines = missing.iter().flat_map(|one| {
        one.parts
            .iter()
            .map(|part| format!("{part} ({})", one.instead))
    });
    // The objects of an add-on have no part of their own.
    let lines: BTreeSet<String> = lines.collect();
    let lines: Vec<String> = lines.into_iter().collect();
    let text = format!(
        "the bundle does not have these parts of applications:\n  {}",
        lines.join("\n  ")
    );
    let hint = "build a bundle with them, or remove the applications from spec.applications";
    Err(CommandError::bundle(text).hint(hint))
}

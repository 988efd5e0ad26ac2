//! Applications that neither the bundle nor the cluster has: commands refuse them before they change a host.

use std::collections::BTreeMap;

use crate::CommandError;
use crate::session::Hosts;
use kubexm_bundle::Lock;
use kubexm_config::Cluster;
use kubexm_deploy::missing_applications;
use kubexm_deploy::objects::Server;
use kubexm_host::{Facts, Host};
use kubexm_types::HostName;

/// Fails if neither the bundle nor the cluster has an application of the cluster file.
///
/// # Errors
/// Names what is missing. Also if the API server does not answer.
pub async fn check(cluster: &Cluster, lock: &Lock, host: &dyn Host) -> Result<(), CommandError> {
    refused(&missing_applications(cluster, lock, Server::of(host)).await?)
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

fn refused(missing: &[String]) -> Result<(), CommandError> {
    if missing.is_empty() {
        return Ok(());
    }
    let text = format!(
        "neither the bundle nor the cluster has these parts of applications:\n  {}",
        missing.join("\n  ")
    );
    let hint = "build a bundle with them, or remove the applications from spec.applications";
    Err(CommandError::bundle(text).hint(hint))
}

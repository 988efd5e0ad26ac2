//! What the programs of a bundle refuse of a cluster file, as findings of preflight.

use std::sync::Arc;

use super::{OTHER_ARCHITECTURE, Programs, Refusal};
use crate::CommandError;
use kubexm_bundle::BundleSet;
use kubexm_config::Cluster;
use kubexm_fetch::FetchError;
use kubexm_preflight::Finding;
use kubexm_sandbox::SandboxError;
use kubexm_types::event::Events;
use kubexm_types::{FindingKind, HostName, WarningKind};

/// What to do with a field that a program refuses.
pub const HINT: &str =
    "remove or correct the field in the cluster file, then run this command again";

/// Asks the programs of a bundle what they refuse of a cluster file. Warns if they do not run on this machine.
///
/// # Errors
/// A program of the bundle cannot be read or run.
pub async fn refused(
    bundle: &Arc<BundleSet>,
    cluster: &Cluster,
    events: &Events,
) -> Result<Vec<Refusal>, CommandError> {
    let asked = Programs::of(bundle).refusals(cluster).await;
    let refused = unless_unavailable(asked, events)?;
    Ok(refused.unwrap_or_default())
}

/// As [`refused`], as findings.
///
/// # Errors
/// A program of the bundle cannot be read or run.
pub async fn findings(
    bundle: &Arc<BundleSet>,
    cluster: &Cluster,
    events: &Events,
) -> Result<Vec<Finding>, CommandError> {
    let refused = refused(bundle, cluster, events).await?;
    let first = cluster.roles.control_plane.first();
    Ok(first.map_or_else(Vec::new, |first| of_refusals(&refused, first)))
}

/// Returns findings that name a host, although they are about the cluster file.
pub fn of_refusals(refused: &[Refusal], first: &HostName) -> Vec<Finding> {
    let finding = |refusal: &Refusal| {
        Finding::new(
            FindingKind::Settings,
            first,
            true,
            refusal.to_string(),
            HINT,
        )
    };
    refused.iter().map(finding).collect()
}

/// Warns if the programs do not run on this machine: a command on hosts does not need a sandbox for anything else.
///
/// # Errors
/// Every other failure of a program.
pub fn unless_unavailable<T>(
    asked: Result<Option<T>, CommandError>,
    events: &Events,
) -> Result<Option<T>, CommandError> {
    match asked {
        Ok(Some(answer)) => Ok(Some(answer)),
        Ok(None) => {
            events.warn(WarningKind::NotChecked, OTHER_ARCHITECTURE);
            Ok(None)
        }
        Err(CommandError::Fetch(FetchError::Program {
            source: SandboxError::Unavailable(why),
            ..
        })) => {
            let message = format!(
                "the flags and feature gates are not checked: this machine cannot isolate programs: {why}"
            );
            events.warn(WarningKind::NotChecked, message);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

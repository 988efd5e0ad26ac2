//! Settings of the cluster file, and of programs that run, that the programs of a new version do not accept.

use std::sync::Arc;

use super::live::Live;
use kubexm_bundle::BundleSet;
use kubexm_config::Cluster;
use kubexm_deploy::upgrade_path::Hop;
use kubexm_preflight::Finding;
use kubexm_session::CommandError;
use kubexm_session::program_settings::Programs;
use kubexm_session::program_settings::findings::{of_refusals, unless_unavailable};
use kubexm_types::HostName;
use kubexm_types::event::Events;

/// A hop with the cluster that it leads to.
pub(super) struct Target<'a> {
    pub(super) cluster: Cluster,
    pub(super) hop: &'a Hop,
}

/// Returns what the programs of each version refuse: of the cluster file, and of the programs that run. `first` is the host
/// that findings about the cluster file name.
///
/// # Errors
/// A program of the bundle cannot be read or run.
pub(super) async fn findings(
    bundle: &Arc<BundleSet>,
    targets: &[Target<'_>],
    live: Option<&Live>,
    first: &HostName,
    events: &Events,
) -> Result<Vec<Finding>, CommandError> {
    let programs = Programs::of(bundle);
    let mut findings: Vec<Finding> = Vec::new();
    for target in targets {
        let asked = of_target(&programs, target, live, first).await;
        let Some(found) = unless_unavailable(asked, events)? else {
            break;
        };
        findings.extend(found);
    }
    Ok(findings)
}

/// Returns what the programs of one version refuse; `None` if they do not run on this machine.
async fn of_target(
    programs: &Programs<'_>,
    target: &Target<'_>,
    live: Option<&Live>,
    first: &HostName,
) -> Result<Option<Vec<Finding>>, CommandError> {
    let Some(refused) = programs.refusals(&target.cluster).await? else {
        return Ok(None);
    };
    let mut findings = of_refusals(&refused, first);
    if let Some(live) = live {
        findings.extend(live.findings(programs, &target.cluster, target.hop).await?);
    }
    Ok(Some(findings))
}

//! Settings of the cluster file, and of programs that run, that the programs of a new version do not accept.

use std::sync::Arc;

use super::live::Live;
use kubexm_bundle::{Blobs, BundleSet};
use kubexm_config::Cluster;
use kubexm_deploy::upgrade_path::Hop;
use kubexm_fetch::FetchError;
use kubexm_preflight::Finding;
use kubexm_sandbox::{Sandbox, SandboxError};
use kubexm_session::CommandError;
use kubexm_session::program_settings::{self, Programs};
use kubexm_types::event::Events;
use kubexm_types::{FindingKind, HostName, WarningKind};

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
    let blobs: Arc<dyn Blobs> = Arc::clone(bundle) as _;
    let programs = Programs {
        lock: bundle.lock(),
        blobs: &blobs,
        sandbox: &Sandbox::default(),
    };
    let mut findings: Vec<Finding> = Vec::new();
    for target in targets {
        match of_target(&programs, target, live, first).await {
            Ok(Some(found)) => findings.extend(found),
            Ok(None) => {
                events.warn(
                    WarningKind::NotChecked,
                    program_settings::OTHER_ARCHITECTURE,
                );
                break;
            }
            // An upgrade does not need a sandbox for anything else.
            Err(CommandError::Fetch(FetchError::Program {
                source: SandboxError::Unavailable(why),
                ..
            })) => {
                events.warn(
                    WarningKind::NotChecked,
                    format!(
                        "the flags and feature gates are not checked: this machine cannot isolate programs: {why}"
                    ),
                );
                break;
            }
            Err(error) => return Err(error),
        }
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
    let hint = "remove or correct the field in the cluster file, then run kubexm upgrade again";
    let found = refused.into_iter();
    let mut findings: Vec<Finding> = found
        .map(|what| Finding::new(FindingKind::Settings, first, true, what, hint))
        .collect();
    if let Some(live) = live {
        findings.extend(live.findings(programs, &target.cluster, target.hop).await?);
    }
    Ok(Some(findings))
}

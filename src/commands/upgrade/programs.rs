//! Settings of the cluster file that the programs of a new version do not accept.

use std::sync::Arc;

use crate::CommandError;
use crate::program_settings::{self, Programs};
use kubexm_bundle::{Blobs, BundleSet};
use kubexm_config::Cluster;
use kubexm_fetch::FetchError;
use kubexm_preflight::Finding;
use kubexm_sandbox::{Sandbox, SandboxError};
use kubexm_types::HostName;
use kubexm_types::event::Events;

/// Returns what the programs of each version refuse: `versions` is the cluster at each of them. `first` is the host that the
/// findings name.
///
/// # Errors
/// A program of the bundle cannot be read or run.
pub(super) async fn findings(
    bundle: &Arc<BundleSet>,
    versions: Vec<Cluster>,
    first: &HostName,
    events: &Events,
) -> Result<Vec<Finding>, CommandError> {
    let blobs: Arc<dyn Blobs> = Arc::clone(bundle) as _;
    let programs = Programs {
        lock: bundle.lock(),
        blobs: &blobs,
        sandbox: &Sandbox::default(),
    };
    let mut findings = Vec::new();
    for cluster in versions {
        match programs.refusals(&cluster).await {
            Ok(Some(refused)) => {
                let hint = "remove or correct the field in the cluster file, then run kubexm upgrade again";
                let found = refused.into_iter();
                findings.extend(found.map(|what| Finding::new(first, true, what, hint)));
            }
            Ok(None) => {
                events.warn(program_settings::OTHER_ARCHITECTURE);
                break;
            }
            // An upgrade does not need a sandbox for anything else.
            Err(CommandError::Fetch(FetchError::Program {
                source: SandboxError::Unavailable(why),
                ..
            })) => {
                events.warn(format!(
                    "the flags and feature gates of the cluster file are not checked: this machine cannot isolate programs: {why}"
                ));
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(findings)
}

//! `app diff`: which objects the next `app apply` or install creates, changes or removes.

use std::sync::Arc;

use serde::Serialize;

use kubexm_deploy::Inputs;
use kubexm_session::absent_applications;
use kubexm_session::application_changes::{self, ApplicationChange};
use kubexm_session::program_settings::Programs;
use kubexm_session::stop::unless_stopped;
use kubexm_session::{ClusterSource, CommandError, Connection, Stop};
use kubexm_types::ReleaseName;
use kubexm_types::event::Events;

use super::list::control_plane;
use super::values::named;

/// Which applications to compare.
#[derive(Debug, Clone)]
pub struct DiffOptions {
    /// The cluster file, and the bundle with the applications.
    pub source: ClusterSource,
    /// How to reach the hosts.
    pub connection: Connection,
    /// The applications; empty for all of the cluster file.
    pub names: Vec<ReleaseName>,
}

/// What the next install makes of applications.
#[derive(Debug, Serialize)]
pub struct ApplicationDiff {
    /// The applications in the order of the cluster file.
    pub applications: Vec<ApplicationChange>,
}

impl ApplicationDiff {
    /// Returns whether the next install changes a release.
    pub fn has_changes(&self) -> bool {
        self.applications.iter().any(|one| one.reason.is_some())
    }
}

/// Compares the applications of a cluster file with those of the cluster. Changes nothing.
///
/// # Errors
/// The cluster file does not have an application, the bundle does not have a part of one, no control plane can be reached, or the
/// API server does not answer.
#[tracing::instrument(skip_all, fields(cluster = %options.source.cluster.display()))]
pub async fn diff(
    options: &DiffOptions,
    events: &Events,
    stop: &Stop,
) -> Result<ApplicationDiff, CommandError> {
    options.connection.check()?;
    let (bundle, cluster) = options.source.read_at_any_version(events)?;
    for name in &options.names {
        named(&cluster, name)?;
    }
    let state = options.connection.state_directory(&cluster, events)?;
    let looking = async {
        let connecting = options
            .connection
            .connect_reachable(&cluster, &state, events);
        let (hosts, _) = connecting.await?;
        let host = control_plane(&cluster, &hosts)?;
        let inputs = Inputs::assumed(&cluster, bundle.lock(), Arc::clone(&bundle) as _);
        let (lock, reached) = (bundle.lock(), host.as_ref());
        let applications: Vec<_> = if options.names.is_empty() {
            absent_applications::check_needed(&cluster, lock, reached).await?;
            cluster.applications.iter().collect()
        } else {
            let names = &options.names;
            absent_applications::check_named(&cluster, lock, reached, names).await?;
            let all = cluster.applications.iter();
            all.filter(|one| options.names.contains(&one.name))
                .collect()
        };
        let programs = Programs::of(&bundle);
        let comparing =
            application_changes::changes(&programs, &inputs, host.as_ref(), applications);
        Ok(ApplicationDiff {
            applications: comparing.await?,
        })
    };
    unless_stopped(stop, looking).await
}

//! `node add`.

use super::names::check_names;
use crate::install::{self, DryRun, InstallOptions, InstallReport};
use kubexm_session::begun::StateRecord;
use kubexm_session::rollback::Newest;
use kubexm_session::{CommandError, Stop};
use kubexm_types::HostName;
use kubexm_types::event::Events;

/// Which hosts join a cluster.
#[derive(Debug, Clone)]
pub struct AddOptions {
    /// The install that adds them. `admitted` and `allow_failed` have no effect: the command needs these hosts, and leaves out
    /// other workers that fail or cannot be reached.
    pub install: InstallOptions,
    /// The hosts.
    pub names: Vec<HostName>,
}

/// Adds hosts of the cluster file to a cluster that exists, and no others.
///
/// # Errors
/// As an install; the cluster does not exist, or other hosts of the cluster file are not in the cluster either.
pub async fn add(
    options: &AddOptions,
    events: &Events,
    stop: &Stop,
) -> Result<InstallReport, CommandError> {
    let (install, newest) = of_these(options, events)?;
    let added = install::install_others(&install, events, stop).await;
    let (report, left_out) = added.map_err(|error| with_bundle(error, newest.as_ref()))?;
    left_out.remind(events);
    Ok(report)
}

/// Returns what [`add`] would do. Changes no host and no state.
///
/// # Errors
/// As [`add`].
pub async fn add_dry_run(
    options: &AddOptions,
    events: &Events,
    stop: &Stop,
) -> Result<DryRun, CommandError> {
    let (install, newest) = of_these(options, events)?;
    let found = install::dry_run(&install, events, stop).await;
    found.map_err(|error| with_bundle(error, newest.as_ref()))
}

/// Returns the install that adds only these hosts, and the newest bundle that the cluster was installed from.
fn of_these(
    options: &AddOptions,
    events: &Events,
) -> Result<(InstallOptions, Option<Newest>), CommandError> {
    let cluster = kubexm_config::load_cluster(&options.install.source.cluster)?;
    let hint = "add the host to spec.hosts and to its roles in the cluster file first";
    check_names(&cluster, &options.names, hint)?;
    let mut install = options.install.clone();
    install.admitted = Some(options.names.iter().cloned().collect());
    install.allow_failed = true;
    let state = install.connection.state_directory(&cluster, events)?;
    Ok((install, Newest::read(&state)?))
}

/// Adds which bundle is necessary, if the bundle does not have the version of the cluster.
fn with_bundle(error: CommandError, newest: Option<&Newest>) -> CommandError {
    match error {
        CommandError::Problems(mut problems) => {
            for problem in &mut problems.list {
                if problem.path == "spec.kubernetes.version" {
                    let newest = newest.map_or_else(String::new, |newest| {
                        format!(": '{}', created {}", newest.name, newest.created)
                    });
                    problem.hint = Some(format!(
                        "new nodes get the version of the cluster: use the bundle that it was installed from last{newest}"
                    ));
                }
            }
            CommandError::Problems(problems)
        }
        error => error,
    }
}

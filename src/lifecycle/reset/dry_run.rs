//! `reset --dry-run`.

use std::fmt::Write;
use std::path::Path;

use super::{ResetOptions, examine, survey};
use kubexm_config::Cluster;
use kubexm_host::HostError;
use kubexm_session::stop::{Stop, unless_stopped};
use kubexm_session::{CommandError, notices, session};
use kubexm_types::event::Events;

/// Looks at the hosts, and emits as a note what a reset deletes and reverts. Changes nothing.
///
/// # Errors
/// As [`super::reset`], as far as reading shows it.
#[tracing::instrument(skip_all, fields(cluster = %options.cluster.display()))]
pub async fn reset_dry_run(
    options: &ResetOptions,
    events: &Events,
    stop: &Stop,
) -> Result<(), CommandError> {
    options.connection.check()?;
    let cluster = kubexm_config::load_cluster(&options.cluster)?;
    notices::emit(&cluster.notices, events);
    let state = options.connection.state_directory(&cluster, events)?;
    let looking = look(options, &cluster, &state, events);
    let unreachable = unless_stopped(stop, looking).await?;
    events.note("dry run: nothing was touched");
    if unreachable.is_empty() {
        Ok(())
    } else {
        Err(CommandError::Hosts(unreachable))
    }
}

/// Returns the errors of hosts that do not answer.
async fn look(
    options: &ResetOptions,
    cluster: &Cluster,
    state: &Path,
    events: &Events,
) -> Result<Vec<HostError>, CommandError> {
    events.phase("connect");
    let connecting = options.connection.connect_reachable(cluster, state, events);
    let (hosts, unreachable) = connecting.await?;
    let hosts = session::watched(&hosts, events);
    let examined = examine(cluster, state, &hosts, options.lost, events).await?;
    let resets = examined.resets;
    let mut text = survey::survey(cluster, &hosts, &resets, &unreachable).await;
    let archive = state.join("archive");
    let saved = if options.snapshot {
        "a snapshot of etcd, the keys and the certificates"
    } else {
        "the keys and the certificates"
    };
    let _ = write!(text, "\nfirst, {saved} are saved in {}", archive.display());
    for reset in resets.iter().filter(|reset| reset.changes() > 0) {
        let _ = write!(text, "\n{}, in this order:", reset.host().name());
        for title in reset.titles() {
            let _ = write!(text, "\n  {title}");
        }
    }
    events.note(text);
    Ok(unreachable)
}

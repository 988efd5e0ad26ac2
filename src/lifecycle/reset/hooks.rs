//! The hooks of the cluster file that run before and after the reset of a host.

use std::collections::BTreeMap;
use std::time::Instant;

use kubexm_config::Cluster;
use kubexm_deploy::ResetHooks;
use kubexm_engine::plan::{Describe, Stop};
use kubexm_engine::reset::{HostReset, ResetError, Reverted};
use kubexm_engine::steps::{RunHook, remove_hook_files};
use kubexm_host::Host;
use kubexm_session::CommandError;
use kubexm_types::HostName;
use kubexm_types::event::{Event, Events, StepState};

/// The hooks of all hosts.
pub(super) struct Hooks(BTreeMap<HostName, ResetHooks>);

impl Hooks {
    /// Reads the hooks.
    ///
    /// # Errors
    /// The file of a hook cannot be read.
    pub(super) fn read(cluster: &Cluster) -> Result<Self, CommandError> {
        let hosts = cluster.hosts.iter();
        let hooks = hosts.map(|host| Ok((host.name.clone(), ResetHooks::of(cluster, host)?)));
        hooks.collect::<Result<_, CommandError>>().map(Self)
    }

    /// Resets a host between its hooks.
    ///
    /// # Errors
    /// A hook failed, or a change cannot be reverted. After a failed hook, nothing more happens on the host.
    pub(super) async fn around(
        &self,
        reset: &HostReset,
        events: &Events,
        stop: &Stop,
    ) -> Result<Reverted, ResetError> {
        let host = reset.host().as_ref();
        let hooks = self.0.get(host.name());
        let (before, after) = hooks.map_or((&[][..], &[][..]), |hooks| {
            (&hooks.before[..], &hooks.after[..])
        });
        let hooks_are_empty = before.is_empty() && after.is_empty();
        // An earlier run has reset the host. What its hooks use is not there any more.
        if reset.changes() > 0 {
            run(host, before, events, stop).await?;
        }
        let reverted = reset.run(events, stop).await?;
        if reverted.complete && !hooks_are_empty {
            let ran = run(host, after, events, stop).await;
            let removed = remove_hook_files(host).await;
            ran?;
            removed.map_err(|error| ResetError::Step(host.name().clone(), error))?;
        }
        Ok(reverted)
    }
}

/// Runs hooks one after another, until one fails or the user stops the reset.
async fn run(
    host: &dyn Host,
    hooks: &[RunHook],
    events: &Events,
    stop: &Stop,
) -> Result<(), ResetError> {
    for hook in hooks {
        if stop.is_cancelled() {
            break;
        }
        let began = Instant::now();
        let result = hook.run_once(host).await;
        events.emit(Event::Step {
            host: host.name().clone(),
            module: "reset".to_owned(),
            task: "hooks".to_owned(),
            step: hook.describe(),
            state: match &result {
                Ok(()) => StepState::Ran,
                Err(error) => StepState::failed(error.kind(), error),
            },
            elapsed: began.elapsed(),
        });
        result.map_err(|error| ResetError::Step(host.name().clone(), error))?;
    }
    Ok(())
}

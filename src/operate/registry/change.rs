//! What all changes of the registries of a running cluster share: locks, the plan for people, and its execution.

use std::path::{Path, PathBuf};

use super::site::{Site, Unreachable, check_own, connect};
use kubexm_config::Cluster;
use kubexm_engine::plan::Plan;
use kubexm_host::HostError;
use kubexm_session::begun::{self, Operation};
use kubexm_session::change::{self, Session};
use kubexm_session::outcome::carry_out;
use kubexm_session::stop::unless_stopped;
use kubexm_session::{CommandError, Connection, Stop, notices, session};
use kubexm_types::event::Events;

/// What a change did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeReport {
    /// The number of steps that changed a host; `None` for a dry run.
    pub changed: Option<usize>,
}

/// A change of registries.
pub(crate) struct Change<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) state: &'a Path,
    pub(crate) connection: &'a Connection,
    pub(crate) operation: Operation,
    /// The digest of the bundle's lock, for the journal; empty without a bundle.
    pub(crate) lock: String,
    pub(crate) dry_run: bool,
}

/// Reads the cluster file of a change without a bundle. Returns the cluster and its state directory.
///
/// # Errors
/// An option or the cluster file is wrong, or kubexm does not run the registry.
pub(super) fn open(
    file: &Path,
    connection: &Connection,
    events: &Events,
) -> Result<(Cluster, PathBuf), CommandError> {
    connection.check()?;
    let cluster = kubexm_config::load_cluster(file)?;
    notices::emit(&cluster.notices, events);
    check_own(&cluster, file)?;
    let state = connection.state_directory(&cluster, events)?;
    Ok((cluster, state))
}

/// What is known before the first step.
pub(crate) struct Prepared {
    /// The plan for people; empty if nothing changes.
    pub(crate) text: String,
    pub(crate) plan: Plan,
    /// What the user does about hosts that did not answer.
    pub(crate) afterwards: &'static str,
    /// What the plan does not repair; the command ends with it after the plan.
    pub(crate) remaining: Option<CommandError>,
}

impl Prepared {
    /// Returns the error with which the command ends although its plan was carried out. What remains without the registries that
    /// did not answer is not known.
    fn error(self, lost: Vec<HostError>) -> Option<CommandError> {
        if lost.is_empty() {
            return self.remaining;
        }
        Some(CommandError::HostsNeeded {
            hosts: lost,
            hint: self.afterwards.to_owned(),
        })
    }
}

impl Change<'_> {
    /// Looks at the registries, shows the plan, asks for confirmation, and carries the plan out. A change that was
    /// interrupted continues when it runs again.
    ///
    /// # Errors
    /// Hosts cannot be reached, the plan is not confirmed, or a step failed. Also if a registry did not answer, or the plan does
    /// not repair everything: the others have changed.
    pub(crate) async fn run(
        &self,
        prepare: impl AsyncFn(&mut Site<'_>, &Events) -> Result<Prepared, CommandError>,
        confirm: impl AsyncFn() -> bool,
        events: &Events,
        stop: &Stop,
    ) -> Result<ChangeReport, CommandError> {
        if self.dry_run {
            begun::permit(self.operation, self.cluster, self.state)?;
            let looking = async {
                let connecting = connect(self.cluster, self.connection, self.state, events);
                let (hosts, unreachable) = connecting.await?;
                let hosts = session::watched(&hosts, events);
                let mut site =
                    Site::of(self.cluster, self.state, hosts, unreachable, events).await?;
                let prepared = prepare(&mut site, events).await?;
                show(&prepared, events);
                Ok((prepared, site.lost))
            };
            let (prepared, lost) = unless_stopped(stop, looking).await?;
            events.note("dry run: nothing was touched");
            let error = prepared.error(lost);
            return error.map_or(Ok(ChangeReport { changed: None }), Err);
        }
        let change = change::Change {
            operation: self.operation,
            cluster: self.cluster,
            state: self.state,
            lock: self.lock.clone(),
        };
        let connect = async |events: &Events| {
            events.phase("connect");
            connect(self.cluster, self.connection, self.state, events).await
        };
        let work = async |session: Session<'_>, unreachable: Unreachable| {
            let (events, stop) = (session.events, session.stop);
            let looking = async {
                let observed = session.observed;
                let mut site =
                    Site::of(self.cluster, self.state, observed, unreachable, events).await?;
                let prepared = prepare(&mut site, events).await?;
                show(&prepared, events);
                Ok((prepared, site.lost))
            };
            let (mut prepared, lost) = unless_stopped(stop, looking).await?;
            if !prepared.plan.tasks.is_empty() && !confirm().await {
                return Err(CommandError::configuration(
                    "the change was not confirmed; nothing was touched",
                )
                .hint("type 'yes', or pass --yes"));
            }
            events.phase("apply");
            let plan = std::mem::take(&mut prepared.plan);
            let ended = carry_out(plan, &session.hosts, events, stop).await?;
            match prepared.error(lost) {
                Some(error @ CommandError::HostsNeeded { .. }) => Err(error),
                remaining => {
                    events.emit(ended.summary(None));
                    Ok((ended.changed, remaining))
                }
            }
        };
        let (changed, remaining) = change.run(events, stop, connect, work).await?;
        let changed = Some(changed);
        remaining.map_or(Ok(ChangeReport { changed }), Err)
    }
}

fn show(prepared: &Prepared, events: &Events) {
    events.note(match prepared.text.as_str() {
        "" if prepared.remaining.is_some() => return,
        "" => "nothing to change",
        text => text.trim_end(),
    });
}

/// Returns a number of bytes for people.
pub(super) fn bytes(count: u64) -> String {
    match count {
        0..=9_999 => format!("{count} bytes"),
        10_000..=9_999_999 => format!("{} KiB", count / 1024),
        _ => format!("{} MiB", count >> 20),
    }
}

/// Returns `1 blob`, `2 blobs`.
pub(super) fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without it, the blobs that only one registry has would be called lost.
    #[test]
    fn registry_that_does_not_answer_is_the_error_also_of_a_dry_run() {
        let error = |lost: Vec<HostError>| {
            let prepared = Prepared {
                text: String::new(),
                plan: Plan::default(),
                afterwards: "run it again",
                remaining: Some(CommandError::refused("r.io/app:v1: 1 blob lost")),
            };
            prepared.error(lost).unwrap().to_string()
        };
        assert!(error(Vec::new()).contains("1 blob lost"));
        let silent = HostError::Unreachable {
            host: "node2".parse().unwrap(),
            address: "192.0.2.12:22".to_owned(),
            reason: "no answer".to_owned().into(),
        };
        let error = error(vec![silent]);
        assert!(
            error.contains("node2") && error.contains("run it again") && !error.contains("lost"),
            "{error}"
        );
    }
}

//! The bracket around every command that changes hosts: journal, connections, locks, work, release.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::join_all;

use crate::begun::{self, Operation};
use crate::bundle_access::verify_once;
use crate::session::{self, Hosts};
use crate::stop::unless_stopped;
use crate::verified::VerifiedBundle;
use crate::{CommandError, Connection, Stop, listeners, preflight};
use kubexm_bundle::BundleSet;
use kubexm_config::Cluster;
use kubexm_engine::cluster::lock::LockError;
use kubexm_engine::cluster::{Holder, HostLocks, Refusal, left_commands};
use kubexm_engine::plan::Journal;
use kubexm_preflight::Finding;
use kubexm_types::event::Events;
use kubexm_types::{FindingKind, UtcTime};

/// A command that changes the hosts of a cluster.
pub struct Change<'a> {
    pub operation: Operation,
    pub cluster: &'a Cluster,
    /// The state directory.
    pub state: &'a Path,
    /// The digest of the bundle's lock, for the journal; empty without a bundle.
    pub lock: String,
}

/// What a command works with while it has the locks of the hosts.
pub struct Session<'a> {
    /// The hosts, with log files in the state directory. For plans, which report their own progress.
    pub hosts: Hosts,
    /// The same hosts, with messages about commands that make no progress. For all other work.
    pub observed: Hosts,
    pub journal: &'a Journal,
    /// The events of the command, which also reach the journal.
    pub events: &'a Events,
    pub stop: &'a Stop,
}

impl Change<'_> {
    /// Verifies the bundle, and connects to all hosts: the `connect` of a command that needs nothing else.
    ///
    /// # Errors
    /// The bundle is damaged, or a host cannot be reached.
    pub async fn connect(
        &self,
        bundle: &Arc<BundleSet>,
        connection: &Connection,
        events: &Events,
    ) -> Result<(Hosts, ()), CommandError> {
        verify_once(bundle, self.state, events).await?;
        events.phase("connect");
        let hosts = connection.connect(self.cluster, self.state, events).await?;
        Ok((hosts, ()))
    }

    /// Locks the state directory, connects, takes the locks of the hosts, and works. Releases the locks on every path,
    /// also after an error, an interrupt or a panic.
    ///
    /// `connect` returns the hosts to lock, and what else it found. It ends when the user stops the command.
    ///
    /// # Errors
    /// Another process works with the state directory or has the lock of a host, another command must be completed
    /// first, or one of the functions failed.
    pub async fn run<C, T>(
        &self,
        events: &Events,
        stop: &Stop,
        connect: impl AsyncFnOnce(&Events) -> Result<(Hosts, C), CommandError>,
        work: impl AsyncFnOnce(Session<'_>, C) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        // Held until the end: only one command may change the cluster.
        let journal = Arc::new(session::journal(self.state)?);
        journal.begin(self.operation.name(), &self.lock);
        let events = &listeners::with_journal(events.clone(), Arc::clone(&journal));
        begun::permit(self.operation, self.cluster, self.state)?;
        begun::forget_complete_move(self.operation, self.cluster, self.state)?;
        let (hosts, connected) = unless_stopped(stop, connect(events)).await?;
        let hosts = session::logged(hosts, self.state);
        let unlocked = session::watched(&hosts, events);
        let locks = lock(&unlocked, &journal, self.operation, events, stop).await?;
        let working = async {
            let record = begun::agree(
                self.operation,
                self.cluster,
                self.state,
                locks.begun(),
                holder(&journal, self.operation),
                events,
            )?;
            let carriers = &self.cluster.roles.control_plane;
            let hosts = locks.guard(hosts, carriers, &record);
            let session = Session {
                observed: session::watched(&hosts, events),
                hosts: hosts.clone(),
                journal: &journal,
                events,
                stop,
            };
            // A reset ends such commands.
            if self.operation != Operation::Reset {
                let ending = left_commands::end(&session.observed);
                let ending = async { ending.await.map_err(CommandError::Hosts) };
                unless_stopped(stop, ending).await?;
            }
            let worked = work(session, connected).await;
            // Control planes record that a command has ended.
            join_all(hosts.values().map(|host| host.settle())).await;
            worked
        };
        let working = AssertUnwindSafe(working).catch_unwind();
        let worked = Box::pin(working).await;
        locks.release().await;
        // The medium of the bundle can be the cause: the next command reads all of it.
        if !matches!(worked, Ok(Ok(_))) {
            VerifiedBundle::forget(self.state);
        }
        worked.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// Takes the locks of all hosts for a command that changes them.
///
/// # Errors
/// Another kubexm has a lock, or a host was lost.
pub async fn lock(
    hosts: &Hosts,
    journal: &Journal,
    operation: Operation,
    events: &Events,
    stop: &Stop,
) -> Result<HostLocks, CommandError> {
    let holder = holder(journal, operation);
    let taken = HostLocks::take(hosts, &holder, journal.origin(), events, stop).await;
    taken.map_err(|error| match error {
        LockError::Hosts(errors) => CommandError::Hosts(errors),
        LockError::Refused(refusals) => {
            let findings: Vec<Finding> = refusals.iter().map(locked).collect();
            match preflight::report(&findings, events) {
                Err(error) => error,
                Ok(()) => CommandError::NotReady(findings),
            }
        }
    })
}

fn holder(journal: &Journal, operation: Operation) -> Holder {
    let state = journal.folder();
    let state = std::path::absolute(state).unwrap_or_else(|_| state.to_owned());
    Holder {
        user: of_environment(&["SUDO_USER", "USER", "LOGNAME"]),
        machine: std::fs::read_to_string("/proc/sys/kernel/hostname")
            .map_or_else(|_| "unknown".to_owned(), |name| name.trim().to_owned()),
        pid: std::process::id(),
        command: operation.to_string(),
        state: state.display().to_string(),
        since: UtcTime::now(),
    }
}

fn locked(refusal: &Refusal) -> Finding {
    let hint = format!(
        "wait until that command ends; if its process no longer runs, the lock ends in {} seconds",
        refusal.seconds
    );
    Finding::new(
        FindingKind::Lock,
        &refusal.host,
        true,
        refusal.to_string(),
        &hint,
    )
}

/// Returns the first of these environment variables that is set.
fn of_environment(names: &[&str]) -> String {
    let mut values = names.iter().filter_map(|name| std::env::var(name).ok());
    values
        .find(|value| !value.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests;

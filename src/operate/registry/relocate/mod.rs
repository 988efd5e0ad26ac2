//! `registry move`: lets other hosts run the registries of a cluster, while it runs.

mod checks;
mod course;
mod issuing;
mod prepare;
mod text;

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use self::course::{Course, Wanted};
use self::text::edit;
use super::change::ChangeReport;
use super::site::check_own;
use kubexm_bundle::BundleSet;
use kubexm_config::Cluster;
use kubexm_host::HostError;
use kubexm_session::begun::{self, MoveRecord, MoveStage as Stage, Operation, joined};
use kubexm_session::bundle_access::verify_once;
use kubexm_session::certificates::CaEncryption;
use kubexm_session::change::{Change, Session};
use kubexm_session::session::{self, HostErrors, Hosts};
use kubexm_session::stop::unless_stopped;
use kubexm_session::{ClusterSource, CommandError, Connection, Stop};
use kubexm_types::event::Events;
use kubexm_types::{HostName, WarningKind};

/// Where the registries move.
#[derive(Debug, Clone)]
pub struct MoveOptions {
    /// The cluster file, which still has the former hosts, and the bundle of the cluster.
    pub source: ClusterSource,
    /// How to reach the hosts.
    pub connection: Connection,
    /// Whether to accept a bundle whose signature cannot be verified, because no key is trusted.
    pub unsigned: bool,
    /// Whether to accept a bundle that is older than the newest one that the cluster was installed from.
    pub allow_older: bool,
    /// What encrypts the keys of CAs; `None` for keys in clear text.
    pub ca_encryption: Option<CaEncryption>,
    /// The hosts that get a registry; empty for a cancellation.
    pub to: Vec<HostName>,
    /// The hosts that lose it; empty for all that have one.
    pub from: Vec<HostName>,
    /// Whether to undo a move that has begun.
    pub cancel: bool,
    /// Whether to end after the plan.
    pub dry_run: bool,
}

/// A move, and the clusters that it passes.
struct Move<'a> {
    options: &'a MoveOptions,
    bundle: &'a Arc<BundleSet>,
    /// With the registries before the move.
    cluster: Cluster,
    /// With the registries of former and of new hosts.
    during: Cluster,
    /// With the registries that remain.
    after: Cluster,
    course: Course,
    record: MoveRecord,
    /// Whether an earlier run began the move.
    is_begun: bool,
    /// The registries of the cluster file.
    named: Vec<HostName>,
    state: &'a Path,
}

/// Moves registries. Nodes pull from former and new registries until all of them use the new ones. A move that was interrupted
/// continues when it runs again, and can be undone until a former registry ends.
///
/// # Errors
/// The bundle or the cluster file is wrong, registries differ, hosts cannot be reached, or a step failed. Also if another move
/// has begun, or none that can be cancelled.
#[tracing::instrument(skip_all, fields(cluster = %options.source.cluster.display()))]
pub async fn relocate(
    options: &MoveOptions,
    events: &Events,
    stop: &Stop,
) -> Result<ChangeReport, CommandError> {
    options.connection.check()?;
    let opened = options.source.open_to_install(options.unsigned, events)?;
    check_own(&opened.cluster, &options.source.cluster)?;
    let state = options
        .connection
        .state_directory(&opened.cluster, events)?;
    let (bundle, cluster) = opened.unless_older(&state, options.allow_older, events)?;
    let moving = Move::of(options, &bundle, &cluster, &state)?;
    if matches!(moving.record.stage, Stage::Moved | Stage::Undone) {
        moving.report_edit(events);
        return Ok(ChangeReport { changed: Some(0) });
    }
    if options.dry_run {
        let looking = async {
            let (hosts, lost) = moving.connect(events).await?;
            let hosts = session::watched(&hosts, events);
            events.note(moving.prepare(hosts, lost, events).await?.text);
            Ok(())
        };
        unless_stopped(stop, looking).await?;
        events.note("dry run: nothing was touched");
        return Ok(ChangeReport { changed: None });
    }
    let change = Change {
        operation: Operation::RegistryMove,
        cluster: &cluster,
        state: &state,
        lock: bundle.bundle().lock_digest().to_string(),
    };
    let connect = async |events: &Events| {
        // Another run may have ended meanwhile.
        let moving = Move::of(options, &bundle, &cluster, &state)?;
        verify_once(&bundle, &state, events).await?;
        events.phase("connect");
        let (hosts, lost) = moving.connect(events).await?;
        Ok((hosts, (moving, lost)))
    };
    let work = async |session: Session<'_>, (moving, lost): (Move<'_>, Vec<HostError>)| {
        let (events, stop) = (session.events, session.stop);
        let preparing = moving.prepare(session.observed, lost, events);
        let prepared = unless_stopped(stop, preparing).await?;
        events.note(prepared.text.clone());
        let ended = moving
            .carry_out(prepared, &session.hosts, events, stop)
            .await?;
        moving.report_edit(events);
        events.emit(ended.summary(None));
        Ok(ended.changed)
    };
    let changed = Box::pin(change.run(events, stop, connect, work)).await?;
    Ok(ChangeReport {
        changed: Some(changed),
    })
}

impl<'a> Move<'a> {
    /// Returns the move that the options name. It begins now, or an earlier run began it.
    fn of(
        options: &'a MoveOptions,
        bundle: &'a Arc<BundleSet>,
        cluster: &Cluster,
        state: &'a Path,
    ) -> Result<Self, CommandError> {
        let record = MoveRecord::load(cluster, state)?;
        begun::permit(Operation::RegistryMove, cluster, state)?;
        let wanted = Wanted {
            to: &options.to,
            from: &options.from,
            cancel: options.cancel,
        };
        let is_begun = record.is_some();
        let (course, record) = course::choose(wanted, cluster, record)?;
        let with = |hosts: Vec<HostName>| {
            let mut cluster = cluster.clone();
            cluster.roles.registry = hosts;
            cluster
        };
        Ok(Self {
            options,
            bundle,
            cluster: with(record.before.clone()),
            during: with([record.before.as_slice(), &record.to].concat()),
            after: with(record.after()),
            course,
            record,
            is_begun,
            named: cluster.roles.registry.clone(),
            state,
        })
    }

    /// Connects to the hosts that must take part: all, because each of them uses the registries, and at the end of the former
    /// registries these alone. Returns also the errors of hosts without which the move can go on.
    async fn connect(&self, events: &Events) -> Result<(Hosts, Vec<HostError>), CommandError> {
        let connection = &self.options.connection;
        let connecting = connection.connect_each(&self.cluster, self.state, events);
        let (mut hosts, mut errors) = connecting.await?;
        if self.course == Course::End {
            hosts.retain(|name, _| self.record.from.contains(name));
            errors.retain(|(name, _)| self.record.from.contains(name));
        }
        let (lost, needed): (HostErrors, HostErrors) = errors
            .into_iter()
            .partition(|(name, _)| self.can_miss(name));
        for (_, error) in &lost {
            events.warn(WarningKind::Host, error);
        }
        let errors = |of: HostErrors| of.into_iter().map(|(_, error)| error).collect();
        if needed.is_empty() {
            Ok((hosts, errors(lost)))
        } else {
            Err(CommandError::HostsNeeded {
                hosts: errors(needed),
                hint: format!(
                    "every host must use the same registries: start this one, or remove it first: kubexm node remove{}",
                    if self.is_begun && self.course == Course::Move {
                        "; kubexm registry move --cancel undoes the move without a former registry"
                    } else {
                        ""
                    }
                ),
            })
        }
    }

    /// Whether the run can go on without a host: one with a former registry that others replace, or that is to be as before.
    fn can_miss(&self, name: &HostName) -> bool {
        match self.course {
            Course::Move => self.record.is_copied && self.record.from.contains(name),
            Course::End => true,
            Course::Cancel => self.record.before.contains(name),
        }
    }

    /// States on which hosts the registries are, and what the cluster file must name.
    fn report_edit(&self, events: &Events) {
        let (text, names) = match self.course {
            Course::Cancel => ("the move was cancelled", &self.record.before),
            Course::Move | Course::End => ("the registries have moved", &self.after.roles.registry),
        };
        let mut text = format!("{text}; the registries are on {}", joined(names));
        if !begun::is_same(names, &self.named) {
            let file = &self.options.source.cluster;
            let _ = write!(
                text,
                "; change the cluster file before the next command:\n  {}",
                edit(file, names)
            );
        }
        events.note(text);
    }
}

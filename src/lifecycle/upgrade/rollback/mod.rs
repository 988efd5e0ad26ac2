//! `upgrade --rollback`: brings a cluster back to the version before an upgrade that has not been completed.

pub(super) mod archive;
mod context;
mod given_up;
mod prepare;
mod restore;
mod text;
pub(super) mod versions;
pub(super) mod way;

use std::collections::BTreeSet;

use self::context::Rollback;
pub(super) use self::given_up::give_up;
use self::prepare::Prepared;
use self::restore::SnapshotRollback;
use self::way::{Begun, Way};
use super::context::{Context, UpgradeOptions};
use super::former::Former;
use super::runtime;
use kubexm_bundle::Lock;
use kubexm_deploy::rollback as deploy;
use kubexm_engine::plan::Plan;
use kubexm_session::begun::{Operation, RollbackRecord, RollbackStage, StateRecord, UpgradeRecord};
use kubexm_session::change::{Change, Session};
use kubexm_session::outcome::{Ended, carry_out};
use kubexm_session::session;
use kubexm_session::stop::unless_stopped;
use kubexm_session::{CommandError, Stop, rollback as older_bundle};
use kubexm_session::{certificates, kubeconfigs};
use kubexm_types::event::Events;
use kubexm_types::{HostName, UtcTime, Version};

/// What a rollback did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollbackReport {
    /// The version of the cluster after the rollback.
    pub version: Version,
    /// Whether the cluster file still has the version of the upgrade.
    pub is_file_newer: bool,
    /// The time of the snapshot with which the cluster went back; `None` if nothing is lost.
    pub restored: Option<UtcTime>,
    /// The number of steps that changed a host; `None` for a dry run.
    pub changed: Option<usize>,
}

/// Rolls an upgrade back that has begun. Emits the plan, and what is lost, as a note. Calls `confirm` before it changes
/// anything if something is lost. A rollback that was interrupted continues where it stopped.
///
/// # Errors
/// No upgrade has begun, the bundle does not have the former version, the user did not confirm, or a step failed.
#[tracing::instrument(skip_all, fields(cluster = %options.source.cluster.display()))]
pub async fn rollback(
    options: &UpgradeOptions,
    confirm: impl AsyncFn() -> bool,
    events: &Events,
    stop: &Stop,
) -> Result<RollbackReport, CommandError> {
    options.connection.check()?;
    // The bundle is older than the newest one of the cluster: that is what a rollback is for.
    let opened = options
        .source
        .open_at_any_version(options.unsigned, events)?;
    let (bundle, mut cluster) = opened.of_any_age();
    let state = options.connection.state_directory(&cluster, events)?;
    let record = UpgradeRecord::load(&state)?.ok_or_else(|| {
        CommandError::refused(format!(
            "{} has no record of an upgrade that has begun, so there is nothing to roll back",
            state.display()
        ))
        .hint(
            "a complete upgrade cannot be rolled back; kubexm backup restore brings the objects \
             of a backup back",
        )
    })?;
    let hop = chosen(&record, &cluster.kubernetes.version, bundle.lock())?;
    let is_file_newer = cluster.kubernetes.version != hop.former;
    cluster.kubernetes.version = hop.former.clone();
    let work = Rollback {
        context: Context {
            options,
            bundle: &bundle,
            cluster: &cluster,
            state: &state,
        },
        former: Former::load(&hop.archive)?,
        hop,
    };
    let report = |prepared: &Prepared, changed| RollbackReport {
        version: cluster.kubernetes.version.clone(),
        is_file_newer,
        restored: match prepared.way {
            Way::InPlace => None,
            Way::Snapshot => work.former.as_ref().map(|former| former.created.clone()),
        },
        changed,
    };
    let looking = async {
        let hosts = options.connection.connect(&cluster, &state, events).await?;
        let hosts = session::watched(&hosts, events);
        let prepared = work.prepare(&hosts, events).await?;
        events.note(work.text(&prepared)?);
        Ok(prepared)
    };
    let prepared = unless_stopped(stop, looking).await?;
    if options.dry_run {
        certificates::warn_unless_opens(&state, options.ca_encryption.as_ref(), events);
        events.note("dry run: nothing was touched");
        return Ok(report(&prepared, None));
    }
    certificates::check_opens(&state, options.ca_encryption.as_ref())?;
    if prepared.way == Way::Snapshot && !unless_stopped(stop, async { Ok(confirm().await) }).await?
    {
        return Err(CommandError::configuration(
            "the rollback was not confirmed; nothing was touched",
        )
        .hint("type the cluster's name, or pass --yes"));
    }
    let change = Change {
        operation: Operation::Rollback,
        cluster: &cluster,
        state: &state,
        lock: bundle.bundle().lock_digest().to_string(),
    };
    let connect = async |events: &Events| {
        let connection = &options.connection;
        change.connect(&bundle, connection, events).await
    };
    let carry_out = async |session: Session<'_>, ()| work.carry_out(prepared.way, &session).await;
    let changed = change.run(events, stop, connect, carry_out).await?;
    Ok(report(&prepared, Some(changed)))
}

/// Returns the hop that is rolled back.
///
/// # Errors
/// A rollback to another version has begun, or the bundle does not have the former version.
fn chosen(record: &UpgradeRecord, to: &Version, lock: &Lock) -> Result<Begun, CommandError> {
    let hop = way::chosen(record, to)?;
    if let Some(rollback) = &record.rollback
        && rollback.to != hop.former
    {
        return Err(CommandError::refused(format!(
            "a rollback to Kubernetes {} has begun, and this one is to {}",
            rollback.to, hop.former
        ))
        .hint(format!(
            "complete it with the version {} in the cluster file",
            rollback.to
        )));
    }
    if !lock.kubernetes.contains(&hop.former) {
        return Err(CommandError::configuration(format!(
            "the bundle has no Kubernetes {}, to which the cluster goes back",
            hop.former
        ))
        .hint(
            "pass the bundle of that version, from which the cluster was installed or upgraded \
             before",
        ));
    }
    Ok(hop)
}

impl Rollback<'_> {
    fn text(&self, prepared: &Prepared) -> Result<String, CommandError> {
        match (prepared.way, &self.former) {
            (Way::Snapshot, Some(former)) => Ok(text::snapshot(
                self.cluster(),
                &self.hop,
                former,
                prepared.stage(),
            )),
            _ => {
                let held = self.parts(prepared);
                let plans: Result<Vec<Plan>, CommandError> = held
                    .into_iter()
                    .map(|held| {
                        let cluster = self.cluster();
                        let certificates = kubexm_deploy::Certificates::placeholder(cluster);
                        let given =
                            self.context
                                .inputs(cluster, &prepared.facts, certificates, held);
                        Ok(deploy::in_place(&given)?.plan)
                    })
                    .collect();
                Ok(text::in_place(
                    self.cluster(),
                    &self.hop,
                    &plans?,
                    prepared.runtimes.clone(),
                ))
            }
        }
    }

    /// Returns the nodes that keep their programs, for each plan: first control planes change, then workers.
    fn parts(&self, prepared: &Prepared) -> Vec<BTreeSet<HostName>> {
        let cluster = self.cluster();
        let nodes = cluster.nodes().into_iter().map(|host| &host.name);
        // The control plane that runs kubectl has the settings of the whole cluster.
        let has_settings = |name: &HostName| {
            let facts = prepared.facts.get(name);
            facts.is_some_and(|facts| facts.cluster_files)
                || cluster.roles.control_plane.first() == Some(name)
        };
        let is_changed = |name: &HostName| prepared.touched.contains(name) || has_settings(name);
        let (changed, others): (Vec<&HostName>, Vec<&HostName>) =
            nodes.partition(|name| is_changed(name));
        let others: BTreeSet<HostName> = others.into_iter().cloned().collect();
        let workers: BTreeSet<HostName> = changed
            .into_iter()
            .filter(|name| !cluster.is_control_plane(name))
            .cloned()
            .collect();
        match (prepared.touched.is_empty(), workers.is_empty()) {
            (true, _) if prepared.stage().is_none() => Vec::new(),
            (_, true) => vec![others],
            (_, false) => vec![&others | &workers, others],
        }
    }

    /// Carries out the rollback in the way that the user has seen. Returns the number of steps that changed a host.
    async fn carry_out(&self, seen: Way, work: &Session<'_>) -> Result<usize, CommandError> {
        let Session {
            observed,
            journal,
            events,
            stop,
            ..
        } = work;
        let resuming = runtime::resume(self.cluster(), observed, events);
        unless_stopped(stop, resuming).await?;
        let mut prepared = unless_stopped(stop, self.prepare(observed, events)).await?;
        // The user has confirmed the loss of nothing else.
        if prepared.way != seen {
            return Err(CommandError::refused(
                "the versions of API servers have changed since the plan; nothing was touched",
            )
            .hint("run the same command again to see the present plan"));
        }
        let first = match prepared.way {
            Way::InPlace => RollbackStage::InPlace,
            Way::Snapshot => RollbackStage::Seed,
        };
        if prepared.stage().is_none() {
            prepared.record.rollback = Some(RollbackRecord::new(self.to(), first));
            prepared.record.save(self.context.state)?;
        }
        let ended = match (prepared.way, &self.former) {
            (Way::Snapshot, Some(former)) => {
                let restoring = SnapshotRollback {
                    rollback: self,
                    former,
                    work,
                };
                restoring.run(&mut prepared).await?
            }
            _ => {
                events.phase("apply");
                let mut ended = Ended::default();
                for held in self.parts(&prepared) {
                    ended += self.change(held, true, work).await?;
                }
                ended
            }
        };
        older_bundle::record_rollback(journal, self.context.bundle.bundle())?;
        UpgradeRecord::remove(self.context.state)?;
        events.emit(ended.summary(None));
        Ok(ended.changed)
    }

    /// Gives all nodes but those in `held` the former version, one after another. `keeps_etcd` states that etcd stays as it
    /// is.
    async fn change(
        &self,
        held: BTreeSet<HostName>,
        keeps_etcd: bool,
        work: &Session<'_>,
    ) -> Result<Ended, CommandError> {
        let (context, cluster) = (&self.context, self.cluster());
        // Earlier parts changed the hosts.
        let gathering = session::gather(cluster, &work.observed);
        let facts = unless_stopped(work.stop, gathering).await?;
        let issued = context.certificates(cluster)?;
        let given = context.inputs(cluster, &facts, issued, held);
        let mut deployment = if keeps_etcd {
            deploy::in_place(&given)?
        } else {
            kubexm_deploy::upgrade::hop(&given)?
        };
        let plan = std::mem::take(&mut deployment.plan);
        let ended = carry_out(plan, &work.hosts, work.events, work.stop).await?;
        if let Some(text) = deployment.kubeconfig.get() {
            kubeconfigs::save_kubeconfig(work.journal, text)?;
        }
        Ok(ended)
    }
}

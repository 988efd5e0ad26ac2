//! `upgrade --rollback`: brings a cluster back to the version before an upgrade that has not been completed.

mod restore;
mod text;
mod versions;
mod way;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::restore::SnapshotRollback;
use self::versions::Programs;
use self::way::{Begun, Way};
use super::checks::{all_nodes, first_control_plane};
use super::former::Former;
use super::path::{Hop, Running};
use super::programs::Target;
use super::record::{RollbackRecord, RollbackStage, UpgradeRecord};
use super::runtime::{self, Runtimes};
use super::{Context, UpgradeOptions, programs};
use crate::identity::KnownCluster;
use crate::install::outcome::{Ended, carry_out};
use crate::install::{kubeconfigs, prepare::verify};
use crate::session::{self, Hosts};
use crate::stop::unless_stopped;
use crate::{CommandError, Stop, listeners, notices, preflight};
use kubexm_config::Cluster;
use kubexm_deploy::rollback as deploy;
use kubexm_engine::plan::{Journal, Plan};
use kubexm_host::Facts;
use kubexm_host::facts::Setting;
use kubexm_types::event::Events;
use kubexm_types::{HostName, Version};

/// What a rollback did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollbackReport {
    /// The version of the cluster after the rollback.
    pub version: Version,
    /// Whether the cluster file still has the version of the upgrade.
    pub is_file_newer: bool,
    /// The time of the snapshot with which the cluster went back; `None` if nothing is lost.
    pub restored: Option<String>,
    /// The number of steps that changed a host; `None` for a dry run.
    pub changed: Option<usize>,
}

const NOT_CONFIRMED: &str = "the rollback was not confirmed; nothing was touched\nhint: type the cluster's name, or pass --yes";

const CHANGED: &str = "the versions of API servers have changed since the plan; nothing was touched\nhint: run the same command again to see the present plan";

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
    let (bundle, mut cluster) = options
        .source
        .open_at_any_version(options.unsigned, events)?;
    let state = options.connection.state_directory(&cluster, events)?;
    let record = UpgradeRecord::load(&state)?.ok_or_else(|| {
        CommandError::Configuration(format!(
            "{} has no record of an upgrade that has begun, so there is nothing to roll back\nhint: a complete upgrade \
             cannot be rolled back; kubexm backup restore brings the objects of a backup back",
            state.display()
        ))
    })?;
    let hop = way::chosen(&record, &cluster.kubernetes.version)?;
    if let Some(rollback) = &record.rollback
        && rollback.to != hop.former.to_string()
    {
        return Err(CommandError::Configuration(format!(
            "a rollback to Kubernetes {} has begun, and this one is to {}\nhint: complete it with the version {} in the \
             cluster file",
            rollback.to, hop.former, rollback.to
        )));
    }
    if !bundle.lock().kubernetes.contains(&hop.former) {
        return Err(CommandError::Configuration(format!(
            "the bundle has no Kubernetes {}, to which the cluster goes back\nhint: pass the bundle of that version, from \
             which the cluster was installed or upgraded before",
            hop.former
        )));
    }
    // The bundle is older than the newest one of the cluster: that is what a rollback is for.
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
        events.note("dry run: nothing was touched");
        return Ok(report(&prepared, None));
    }
    if prepared.way == Way::Snapshot && !unless_stopped(stop, async { Ok(confirm().await) }).await?
    {
        return Err(CommandError::Configuration(NOT_CONFIRMED.to_owned()));
    }
    // Held until the end: only one command may change the cluster.
    let journal = Arc::new(session::journal(&state)?);
    journal.begin(
        "upgrade --rollback",
        &bundle.bundle().lock_digest().to_string(),
    );
    let events = &listeners::with_journal(events.clone(), Arc::clone(&journal));
    events.phase("verify");
    unless_stopped(stop, verify(&bundle, events)).await?;
    events.phase("connect");
    let connecting = options.connection.connect(&cluster, &state, events);
    let hosts = session::logged(unless_stopped(stop, connecting).await?, &state);
    let observed = session::watched(&hosts, events);
    let locks = session::lock(&observed, &journal, "upgrade --rollback", events, stop).await?;
    let ended = work
        .carry_out(prepared.way, &hosts, &journal, events, stop)
        .await;
    locks.release().await;
    Ok(report(&prepared, Some(ended?)))
}

/// What a rollback works with. The cluster of the context has the former version.
struct Rollback<'a> {
    context: Context<'a>,
    hop: Begun,
    /// What the archive of the hop has.
    former: Option<Former>,
}

/// What is known before the first change.
struct Prepared {
    facts: BTreeMap<HostName, Facts>,
    way: Way,
    /// The nodes that the upgrade has changed.
    touched: BTreeSet<HostName>,
    record: UpgradeRecord,
    runtimes: Runtimes,
}

impl Prepared {
    fn stage(&self) -> Option<RollbackStage> {
        self.record.rollback.as_ref().map(|rollback| rollback.stage)
    }
}

impl Rollback<'_> {
    fn to(&self) -> &Version {
        &self.hop.former
    }

    fn cluster(&self) -> &Cluster {
        self.context.cluster
    }

    /// Looks at the hosts, without the API servers.
    ///
    /// # Errors
    /// Something prevents the rollback.
    async fn prepare(&self, hosts: &Hosts, events: &Events) -> Result<Prepared, CommandError> {
        let (context, cluster) = (&self.context, self.cluster());
        events.phase("preflight");
        let record = UpgradeRecord::load(context.state)?;
        let record = record.ok_or_else(|| {
            CommandError::configuration(
                "the record of the upgrade is gone: another command removed it",
            )
        })?;
        let facts = session::gather(cluster, hosts).await?;
        notices::emit_experimental_hosts(&facts, events);
        let known = KnownCluster::read(cluster, context.state)?;
        known.origins(cluster, &facts, events)?;
        all_nodes(cluster, &facts)?;
        let found = Programs::read(cluster, hosts).await?;
        let nodes = found.versions.iter();
        let touched = way::touched(
            nodes.map(|(name, versions)| (name, versions.as_slice())),
            &found.cordoned,
            self.to(),
        );
        let prepared = Prepared {
            way: match record.rollback.as_ref().map(|begun| begun.stage) {
                None => self.way(&facts)?,
                Some(RollbackStage::InPlace) => Way::InPlace,
                Some(_) => Way::Snapshot,
            },
            runtimes: Runtimes::read(cluster, hosts, context.bundle.lock(), &facts).await?,
            facts,
            touched,
            record,
        };
        if prepared.way == Way::Snapshot {
            self.check_archive()?;
        }
        // Later, hosts are as the rollback has left them.
        if prepared.stage().is_none() {
            let bundle = context.bundle;
            let mut findings =
                preflight::check_upgrade(cluster, hosts, &prepared.facts, bundle).await;
            let (first, _) = first_control_plane(cluster, hosts)?;
            let targets = [Target {
                cluster: cluster.clone(),
                hop: &self.reconciliation(&prepared.touched),
            }];
            findings.extend(programs::findings(bundle, &targets, None, first, events).await?);
            preflight::report(&findings, events)?;
        }
        Ok(prepared)
    }

    fn way(&self, facts: &BTreeMap<HostName, Facts>) -> Result<Way, CommandError> {
        Ok(way::way(&self.api_servers(facts)?, self.to()))
    }

    /// Returns the versions of the API servers.
    ///
    /// # Errors
    /// A control plane has none.
    fn api_servers(&self, facts: &BTreeMap<HostName, Facts>) -> Result<Running, CommandError> {
        let mut running = Running::default();
        for name in &self.cluster().roles.control_plane {
            let found = facts.get(name);
            let found = found.and_then(|facts| facts.applied(Setting::Version).next());
            let version = found.and_then(|text| text.parse().ok()).ok_or_else(|| {
                CommandError::Configuration(format!(
                    "{name}: cannot see the version of its API server\nhint: repair the host first; kubexm logs \
                     kube-apiserver shows its log"
                ))
            })?;
            running.api_servers.insert(name.clone(), version);
        }
        Ok(running)
    }

    /// Fails if the archive cannot bring the cluster back.
    fn check_archive(&self) -> Result<(), CommandError> {
        if self.former.is_some() {
            return Ok(());
        }
        let refused = |cause: &str, hint: &str| {
            Err(CommandError::Configuration(format!(
                "all API servers run Kubernetes {}, so that the way back is a snapshot of etcd, and {cause}\nhint: {hint}",
                self.hop.version
            )))
        };
        let archive = self.hop.archive.display();
        match self.cluster().etcd.data_directory() {
            None => refused(
                "kubexm saves none of an external etcd",
                "complete the upgrade; or restore the external etcd from your own snapshot and install the former version \
                 on new hosts",
            ),
            Some(_) => refused(
                &format!(
                    "{archive} has none that kubexm can restore: an earlier version of kubexm saved it"
                ),
                "complete the upgrade with the same command without --rollback",
            ),
        }
    }

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
        // The first control plane has the settings of the whole cluster.
        let is_changed = |name: &HostName| {
            prepared.touched.contains(name) || cluster.roles.control_plane.first() == Some(name)
        };
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
    async fn carry_out(
        &self,
        seen: Way,
        hosts: &Hosts,
        journal: &Journal,
        events: &Events,
        stop: &Stop,
    ) -> Result<usize, CommandError> {
        let observed = session::watched(hosts, events);
        let resuming = runtime::resume(self.cluster(), &observed, events);
        unless_stopped(stop, resuming).await?;
        let mut prepared = unless_stopped(stop, self.prepare(&observed, events)).await?;
        // The user has confirmed the loss of nothing else.
        if prepared.way != seen {
            return Err(CommandError::configuration(CHANGED));
        }
        let first = match prepared.way {
            Way::InPlace => RollbackStage::InPlace,
            Way::Snapshot => RollbackStage::Seed,
        };
        if prepared.stage().is_none() {
            prepared.record.rollback = Some(RollbackRecord::new(self.to(), first));
            prepared.record.save(journal)?;
        }
        let work = Work {
            hosts,
            observed: &observed,
            journal,
            events,
            stop,
        };
        let ended = match (prepared.way, &self.former) {
            (Way::Snapshot, Some(former)) => {
                let restoring = SnapshotRollback {
                    rollback: self,
                    former,
                    work: &work,
                };
                restoring.run(&mut prepared).await?
            }
            _ => {
                events.phase("apply");
                let mut ended = Ended::default();
                for held in self.parts(&prepared) {
                    ended += self.change(held, true, &work).await?;
                }
                ended
            }
        };
        UpgradeRecord::remove(journal)?;
        events.emit(ended.summary(None));
        Ok(ended.changed)
    }

    /// Gives all nodes but those in `held` the former version, one after another. `keeps_etcd` states that etcd stays as it
    /// is.
    async fn change(
        &self,
        held: BTreeSet<HostName>,
        keeps_etcd: bool,
        work: &Work<'_>,
    ) -> Result<Ended, CommandError> {
        let (context, cluster) = (&self.context, self.cluster());
        // Earlier parts changed the hosts.
        let gathering = session::gather(cluster, work.observed);
        let facts = unless_stopped(work.stop, gathering).await?;
        let issued = context.certificates(cluster)?;
        let given = context.inputs(cluster, &facts, issued, held);
        let mut deployment = match keeps_etcd {
            true => deploy::in_place(&given)?,
            false => kubexm_deploy::upgrade::hop(&given)?,
        };
        let plan = std::mem::take(&mut deployment.plan);
        let ended = carry_out(plan, work.hosts, work.events, work.stop).await?;
        if let Some(text) = deployment.kubeconfig.get() {
            kubeconfigs::save_kubeconfig(work.journal, text)?;
        }
        Ok(ended)
    }
}

/// The hosts that a rollback changes, and where it reports.
struct Work<'a> {
    hosts: &'a Hosts,
    observed: &'a Hosts,
    journal: &'a Journal,
    events: &'a Events,
    stop: &'a Stop,
}

impl Rollback<'_> {
    /// Returns the hop that gives the former version to all control planes and to the changed workers.
    fn reconciliation(&self, touched: &BTreeSet<HostName>) -> Hop {
        let is_worker = |name: &&HostName| !self.cluster().is_control_plane(name);
        Hop {
            version: self.to().clone(),
            workers: touched.iter().filter(is_worker).cloned().collect(),
        }
    }
}

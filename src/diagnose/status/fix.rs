//! `status --fix`: removes the differences between hosts and the plan of an install, with the steps of that plan.

mod choice;
#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::{drift, stopped};
use choice::Choice;
use kubexm_bundle::BundleSet;
use kubexm_config::Cluster;
use kubexm_engine::plan::restrict::restrict;
use kubexm_lifecycle::install::prepare::Connected;
use kubexm_lifecycle::install::prepare::{Context, Prepared, planned, prepare};
use kubexm_lifecycle::install::{CaEncryption, InstallOptions};
use kubexm_lifecycle::plan::{self, PlanDiff};
use kubexm_session::begun::{self, Operation};
use kubexm_session::change::Session;
use kubexm_session::outcome;
use kubexm_session::session::{self, Hosts};
use kubexm_session::stop::unless_stopped;
use kubexm_session::{
    ClusterSource, CommandError, Connection, Stop, certificates, older_etcd, plan_inputs, preflight,
};
use kubexm_types::event::Events;

/// How often kubexm compares hosts and applies steps: a check may fail until another step is done.
const ROUNDS: usize = 3;
/// Which differences to remove.
#[derive(Debug, Clone)]
pub struct FixOptions {
    /// The cluster and its bundle.
    pub source: ClusterSource,
    /// How to reach the hosts.
    pub connection: Connection,
    /// Whether to accept a bundle whose signature cannot be verified, because no key is trusted.
    pub unsigned: bool,
    /// What encrypts the keys of CAs in the state directory.
    pub ca_encryption: Option<CaEncryption>,
    /// Whether to end after the plan.
    pub dry_run: bool,
}

/// What `status --fix` did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixReport {
    /// The number of steps that changed a host; `None` for a dry run.
    pub changed: Option<usize>,
    /// Whether the dry run found differences that the command removes.
    pub has_differences: bool,
}

impl FixOptions {
    /// Returns the options of the install whose steps are applied. It adds no host.
    fn install(&self) -> InstallOptions {
        InstallOptions {
            source: self.source.clone(),
            connection: self.connection.clone(),
            unsigned: self.unsigned,
            allow_failed: false,
            allow_older: false,
            ca_encryption: self.ca_encryption.clone(),
            admitted: Some(BTreeSet::new()),
        }
    }
}

/// Removes the differences between hosts and the plan of an install, in the order of an install. Emits the plan as a note
/// before it changes anything.
///
/// # Errors
/// The bundle is not the one of the cluster, hosts cannot be reached or are not ready for an install, or a step failed.
#[tracing::instrument(skip_all, fields(cluster = %options.source.cluster.display()))]
pub async fn fix(
    options: &FixOptions,
    events: &Events,
    stop: &Stop,
) -> Result<FixReport, CommandError> {
    options.connection.check()?;
    let opened = options.source.open_to_install(options.unsigned, events)?;
    let state = options
        .connection
        .state_directory(&opened.cluster, events)?;
    let (bundle, cluster) = opened.unless_older(&state, false, events)?;
    check_bundle(&state, &bundle)?;
    if options.dry_run {
        begun::permit(Operation::StatusFix, &cluster, &state)?;
        let comparing = compare(options, &cluster, &bundle, &state, events);
        let found = unless_stopped(stop, comparing).await?;
        plan::check_reachable(&found)?;
        let choice = Choice::of(&found);
        events.note(choice.text(&cluster.name, true));
        events.note("dry run: nothing was touched");
        return Ok(FixReport {
            changed: None,
            has_differences: !choice.is_empty(),
        });
    }
    certificates::check_opens(&state, options.ca_encryption.as_ref())?;
    let install = options.install();
    let context = Context {
        options: &install,
        bundle: &bundle,
        cluster: &cluster,
        state: &state,
    };
    let change = context.change(Operation::StatusFix);
    let connect = async |events: &Events| context.connect(events).await;
    let work = async |session: Session<'_>, connected| apply(&context, session, connected).await;
    let changed = change.run(events, stop, connect, work).await?;
    Ok(FixReport {
        changed: Some(changed),
        has_differences: false,
    })
}

/// Fails if the bundle is not the one that the hosts have. The differences would be those of an upgrade.
fn check_bundle(state: &Path, bundle: &BundleSet) -> Result<(), CommandError> {
    match drift::other_bundle(state, bundle.bundle()) {
        Some(what) => Err(CommandError::refused(what)
            .hint("pass the bundle of the last install, or run kubexm install with this one")),
        None => Ok(()),
    }
}

/// Compares the hosts with the plan, and changes nothing.
async fn compare(
    options: &FixOptions,
    cluster: &Cluster,
    bundle: &Arc<BundleSet>,
    state: &Path,
    events: &Events,
) -> Result<PlanDiff, CommandError> {
    let hosts = options.connection.connect(cluster, state, events).await?;
    let hosts = session::watched(&hosts, events);
    let facts = session::gather(cluster, &hosts).await?;
    let mut findings = preflight::of_existing(cluster, &facts);
    findings.extend(older_etcd::findings(cluster, &facts, bundle.lock()));
    preflight::report(&findings, events)?;
    let encryption = options.ca_encryption.as_ref();
    let certificates = certificates::preview(cluster, state, encryption)?;
    let inputs = plan_inputs::with_certificates(cluster, bundle, &facts, certificates);
    plan::compare(&inputs, &hosts).await
}

/// Applies the steps that differ. Returns the number of those that changed a host.
async fn apply(
    context: &Context<'_>,
    session: Session<'_>,
    connected: Connected,
) -> Result<usize, CommandError> {
    let (events, stop) = (session.events, session.stop);
    let mut clock = connected.clock;
    let preparing = prepare(context, &session, connected.failed, &mut clock);
    let Prepared {
        hosts,
        facts,
        failed,
        mut deployment,
        ..
    } = unless_stopped(stop, preparing).await?;
    let mut changed = 0;
    for round in 0..ROUNDS {
        let compared = looked_at(&deployment.plan, &hosts, events);
        let found = before_round(round, unless_stopped(stop, compared).await)?;
        let choice = Choice::of(&found);
        if round == 0 || !choice.is_empty() {
            events.note(choice.text(&context.cluster.name, false));
        }
        if choice.is_empty() {
            break;
        }
        events.phase("apply");
        let whole = std::mem::take(&mut deployment.plan);
        let part = restrict(whole, &choice.steps, &choice.excluded);
        let part = part?;
        changed += outcome::carry_out(part, &hosts, events, stop)
            .await?
            .changed;
        deployment = planned(context, &facts, &failed)?;
    }
    Ok(changed)
}

/// Returns what was found before a round. Steps have run on hosts before each round but the first one.
fn before_round<T>(round: usize, found: Result<T, CommandError>) -> Result<T, CommandError> {
    match round {
        0 => found,
        _ => found.map_err(|error| stopped(error, "stopped after steps of the fix ran on hosts")),
    }
}

async fn looked_at(
    plan: &kubexm_engine::plan::Plan,
    hosts: &Hosts,
    events: &Events,
) -> Result<PlanDiff, CommandError> {
    let found = plan::compare_plan(plan, &session::watched(hosts, events)).await?;
    plan::check_reachable(&found)?;
    Ok(found)
}

//! `install`: brings a cluster up on its hosts, or continues an install that was interrupted.

pub(crate) mod clock;
mod dry_run;
pub(crate) mod kubeconfigs;
mod options;
pub(crate) mod outcome;
pub(crate) mod prepare;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
pub use dry_run::{DryRun, dry_run};
pub use options::InstallOptions;
use outcome::Run;
use prepare::{Context, Prepared, planned, prepare};

pub use crate::certificates::CaEncryption;
use crate::failed_workers::FailedWorkers;
use crate::stop::{Stop, unless_stopped};
use crate::{CommandError, backup, listeners, node, rollback, session};
use kubexm_engine::cluster::HostLocks;
use kubexm_engine::plan;
use kubexm_types::event::Events;

/// What an install did.
#[derive(Debug, Clone)]
pub struct InstallReport {
    /// The number of steps that changed a host.
    pub changed: usize,
    /// The number of steps that found their host in the desired state.
    pub unchanged: usize,
    /// The number of actions that ran.
    pub ran: usize,
    /// The administrator's kubeconfig on this machine.
    pub kubeconfig: PathBuf,
    /// The duration of each phase, in order.
    pub phases: Vec<(&'static str, Duration)>,
    /// The duration of the whole command.
    pub total: Duration,
}

/// Installs a cluster. An install that was interrupted continues where it stopped.
///
/// # Errors
/// The bundle or the cluster file is wrong, hosts are not ready or cannot be reached, a step failed, or workers were left
/// out.
pub async fn install(
    options: &InstallOptions,
    events: &Events,
    stop: &Stop,
) -> Result<InstallReport, CommandError> {
    let (report, failed) = install_others(options, events, stop).await?;
    if failed.is_empty() {
        return Ok(report);
    }
    events.note(format!("the kubeconfig is {}", report.kubeconfig.display()));
    Err(failed.into_error())
}

/// Installs a cluster, and returns the workers that were left out.
///
/// # Errors
/// As [`install`], but for workers that were left out.
#[tracing::instrument(skip_all, fields(cluster = %options.source.cluster.display()))]
pub(crate) async fn install_others(
    options: &InstallOptions,
    events: &Events,
    stop: &Stop,
) -> Result<(InstallReport, FailedWorkers), CommandError> {
    options.connection.check()?;
    let (bundle, cluster) = options.source.open_to_install(options.unsigned, events)?;
    let state = options.connection.state_directory(&cluster, events)?;
    // Held until the end: only one command may change the cluster.
    let journal = Arc::new(session::journal(&state)?);
    journal.begin("install", &bundle.bundle().lock_digest().to_string());
    let events = listeners::with_journal(events.clone(), Arc::clone(&journal));
    rollback::check(&state, bundle.bundle(), options.allow_older, &events)?;
    let mut locks = None;
    let context = Context {
        options,
        command: "install",
        bundle: &bundle,
        cluster: &cluster,
        journal: &journal,
        events: &events,
        stop,
    };
    let installed = install_locked(&context, &mut locks).await;
    if let Some(locks) = locks {
        locks.release().await;
    }
    installed
}

/// Installs a cluster. The locks of the hosts remain in `locks`, also after a failure.
async fn install_locked(
    context: &Context<'_>,
    locks: &mut Option<HostLocks>,
) -> Result<(InstallReport, FailedWorkers), CommandError> {
    let Context {
        bundle,
        cluster,
        journal,
        events,
        stop,
        ..
    } = *context;
    let mut clock = Clock::start();
    let preparing = prepare(context, locks, &mut clock);
    let Prepared {
        hosts,
        facts,
        mut known,
        origins,
        mut failed,
        mut deployment,
    } = unless_stopped(stop, preparing).await?;
    if let Some(admitted) = &context.options.admitted {
        node::describe(cluster, &facts, admitted, &deployment.plan, events);
    }
    let observed = session::watched(&hosts, events);
    known
        .begin_install(cluster, &observed, &facts, &origins)
        .await?;
    // Before the first step: an older bundle must not continue an interrupted install.
    rollback::record(journal, bundle.bundle())?;
    events.phase("apply");
    let (mut hosts, mut facts) = (hosts, facts);
    let outcome = loop {
        let counted = listeners::with_counter(events, &deployment.plan);
        let plan = std::mem::take(&mut deployment.plan);
        let outcome = plan::execute(plan, &hosts, &counted, stop)
            .await
            .map_err(CommandError::configuration)?;
        if !failed.leave_out_failed(&outcome, &hosts, events).await {
            break outcome;
        }
        // The others do not wait for a worker that failed: a plan without it continues where this one ended.
        failed.remove_from(&mut hosts, &mut facts);
        deployment = planned(context, &facts, &failed)?;
    };
    clock.lap("apply");
    let run = Run::of(outcome, &hosts).await;
    // A cluster whose control plane runs has a kubeconfig, even if a worker failed.
    let kubeconfig = match deployment.kubeconfig.get() {
        Some(text) => kubeconfigs::save_kubeconfig(journal, text)?,
        None => PathBuf::new(),
    };
    if run.judged.is_err() && deployment.kubeconfig.get().is_some() {
        events.note(format!("the kubeconfig is {}", kubeconfig.display()));
    }
    run.judged?;
    node::end_replacement(journal.folder(), hosts.keys())?;
    if known.is_incomplete() {
        let observed = session::watched(&hosts, events);
        known.end_install(cluster, &session::gather(cluster, &observed).await?)?;
    }
    let observed = session::watched(&hosts, events);
    kubeconfigs::keep_super_admin(&deployment.super_admin, cluster, &observed, journal).await?;
    events.emit(run.ended.summary(Some(&kubeconfig)));
    if failed.is_empty() {
        backup::record_install(journal.folder())?;
    }
    let report = InstallReport {
        changed: run.ended.changed,
        unchanged: run.ended.unchanged,
        ran: run.ended.ran,
        kubeconfig,
        total: clock.began.elapsed(),
        phases: clock.laps,
    };
    Ok((report, failed))
}

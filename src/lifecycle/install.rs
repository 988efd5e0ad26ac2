//! `install`: brings a cluster up on its hosts, or continues an install that was interrupted.

pub mod clock;
mod dry_run;
mod offers;
mod options;
pub mod prepare;

use std::path::PathBuf;
use std::time::Duration;

pub use dry_run::{DryRun, dry_run};
pub use kubexm_deploy::offers::{INGRESS_LINE, METRICS_LINE, STORAGE_LINE};
pub use options::InstallOptions;
use prepare::{Context, Prepared, planned, prepare};

use crate::addition;
use crate::install::prepare::Connected;
use kubexm_engine::plan;
use kubexm_session::begun::{self, Operation};
pub use kubexm_session::certificates::CaEncryption;
use kubexm_session::change::Session;
use kubexm_session::failed_workers::FailedWorkers;
use kubexm_session::kubeconfigs;
use kubexm_session::outcome::Run;
use kubexm_session::stop::{Stop, unless_stopped};
use kubexm_session::{CommandError, certificates, clear_text, listeners, rollback, session};
use kubexm_types::event::{Event, Events, Offers};

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
    /// What the cluster has; `None` if no API server answered.
    pub offers: Option<Offers>,
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
pub async fn install_others(
    options: &InstallOptions,
    events: &Events,
    stop: &Stop,
) -> Result<(InstallReport, FailedWorkers), CommandError> {
    options.connection.check()?;
    // Compared below, under the lock of the state directory: another install may record a newer bundle meanwhile.
    let opened = options.source.open_to_install(options.unsigned, events)?;
    let (bundle, cluster) = opened.of_any_age();
    let state = options.connection.state_directory(&cluster, events)?;
    let context = Context {
        options,
        bundle: &bundle,
        cluster: &cluster,
        state: &state,
    };
    let operation = if options.admitted.is_some() {
        Operation::NodeAdd
    } else {
        Operation::Install
    };
    let change = context.change(operation);
    let connect = async |events: &Events| {
        rollback::check(&state, bundle.bundle(), options.allow_older, events)?;
        certificates::check_opens(&state, options.ca_encryption.as_ref())?;
        context.connect(events).await
    };
    let work = async |session: Session<'_>, connected| {
        let events = session.events;
        let installed = install_locked(&context, session, connected).await?;
        clear_text::encrypt(&state, options.ca_encryption.as_ref(), events).await;
        Ok(installed)
    };
    change.run(events, stop, connect, work).await
}

/// Installs a cluster on hosts whose locks this process has.
async fn install_locked(
    context: &Context<'_>,
    session: Session<'_>,
    connected: Connected,
) -> Result<(InstallReport, FailedWorkers), CommandError> {
    let Context {
        bundle, cluster, ..
    } = *context;
    let Session {
        journal,
        events,
        stop,
        ..
    } = session;
    let mut clock = connected.clock;
    let preparing = prepare(context, &session, connected.failed, &mut clock);
    let Prepared {
        hosts,
        facts,
        mut known,
        origins,
        mut failed,
        mut deployment,
    } = unless_stopped(stop, preparing).await?;
    if let Some(admitted) = &context.options.admitted {
        addition::describe(cluster, &facts, admitted, &deployment.plan, events);
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
        let outcome = plan::execute(plan, &hosts, &counted, stop).await?;
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
    begun::end_replacement(journal.folder(), hosts.keys())?;
    if known.is_incomplete() {
        let observed = session::watched(&hosts, events);
        known.end_install(cluster, &session::gather(cluster, &observed).await?)?;
    }
    let observed = session::watched(&hosts, events);
    kubeconfigs::keep_super_admin(&deployment.super_admin, cluster, &observed, journal).await?;
    // A new node changes nothing of what the cluster offers.
    let offers = match context.options.admitted {
        Some(_) => None,
        None => offers::of(context, &observed).await,
    };
    events.emit(Event::Summary {
        changed: run.ended.changed,
        unchanged: run.ended.unchanged,
        ran: run.ended.ran,
        kubeconfig: Some(kubeconfig.display().to_string()),
        offers: offers.clone(),
    });
    if failed.is_empty() {
        begun::record_install(journal.folder())?;
    }
    let report = InstallReport {
        changed: run.ended.changed,
        unchanged: run.ended.unchanged,
        ran: run.ended.ran,
        kubeconfig,
        offers,
        total: clock.began.elapsed(),
        phases: clock.laps,
    };
    Ok((report, failed))
}

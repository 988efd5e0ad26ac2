//! `install`: brings a cluster up on its hosts, or continues an install that was interrupted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use crate::certificates::CaEncryption;
use crate::failed_workers::FailedWorkers;
use crate::identity::{KnownCluster, Origins};
use crate::plan::{PlanDiff, Planned};
use crate::session::{self, Hosts};
use crate::stop::{AGAIN, Stop, unless_stopped};
use crate::{
    ClusterSource, CommandError, Connection, FileError, LeftOver, StepFailures, certificates,
    notices, preflight, rollback, threads,
};
use kubexm_bundle::BundleSet;
use kubexm_config::Cluster;
use kubexm_deploy::{Certificates, Deployment, Inputs};
use kubexm_engine::cluster::HostLocks;
use kubexm_engine::plan::{
    self, Journal, Outcome, SkipReason, StepError, TaskId, TaskValue, Watch,
};
use kubexm_host::{Command, Facts, HostError};
use kubexm_preflight::Finding;
use kubexm_types::HostName;
use kubexm_types::event::{Counter, Event, Events, Listener, StepState};

/// What to install, and where.
#[derive(Debug, Clone)]
pub struct InstallOptions {
    /// The cluster and its bundle.
    pub source: ClusterSource,
    /// How to reach the hosts.
    pub connection: Connection,
    /// Whether to accept a bundle whose signature cannot be verified, because no key is trusted.
    pub unsigned: bool,
    /// Whether to install the cluster without workers that fail or cannot be reached.
    pub allow_failed: bool,
    /// Whether to accept a bundle that is older than the newest one that the cluster was installed from.
    pub allow_older: bool,
    /// What encrypts the keys of CAs; `None` for keys in clear text.
    pub ca_encryption: Option<CaEncryption>,
}

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

/// What an install would do on the hosts as they are now.
pub struct DryRun {
    /// The plan.
    pub planned: Planned,
    /// What an install would change; `None` for a cluster that is not installed yet.
    pub diff: Option<PlanDiff>,
    findings: Vec<Finding>,
}

impl DryRun {
    /// Emits the findings of preflight as events.
    ///
    /// # Errors
    /// At least one finding prevents an install.
    pub fn report_findings(&self, events: &Events) -> Result<(), CommandError> {
        preflight::report(&self.findings, events)
    }
}

/// Installs a cluster. An install that was interrupted continues where it stopped.
///
/// # Errors
/// The bundle or the cluster file is wrong, hosts are not ready or cannot be reached, or a step failed.
#[tracing::instrument(skip_all, fields(cluster = %options.source.cluster.display()))]
pub async fn install(
    options: &InstallOptions,
    events: &Events,
    stop: &Stop,
) -> Result<InstallReport, CommandError> {
    options.connection.check()?;
    let (bundle, cluster) = options.source.open_to_install(options.unsigned, events)?;
    let state = options.connection.state_directory(&cluster, events)?;
    // Held until the end: only one command may change the cluster.
    let journal = Arc::new(session::journal(&state)?);
    journal.begin("install", &bundle.bundle().lock_digest().to_string());
    let events = with_journal(events.clone(), Arc::clone(&journal));
    rollback::check(&state, bundle.bundle(), options.allow_older, &events)?;
    let mut locks = None;
    let context = Context {
        options,
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

/// What an install works with.
struct Context<'a> {
    options: &'a InstallOptions,
    bundle: &'a Arc<BundleSet>,
    cluster: &'a Cluster,
    journal: &'a Journal,
    events: &'a Events,
    stop: &'a Stop,
}

/// Installs a cluster. The locks of the hosts remain in `locks`, also after a failure.
async fn install_locked(
    context: &Context<'_>,
    locks: &mut Option<HostLocks>,
) -> Result<InstallReport, CommandError> {
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
    let observed = session::watched(&hosts, events);
    known
        .begin_install(cluster, &observed, &facts, &origins)
        .await?;
    // Before the first step: an older bundle must not continue an interrupted install.
    rollback::record(journal, bundle.bundle())?;
    events.phase("apply");
    let (mut hosts, mut facts) = (hosts, facts);
    let outcome = loop {
        let counted = with_counter(events, &deployment);
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
    let unreachable = match outcome.failed.is_empty() {
        true => Vec::new(),
        false => session::unreachable(&hosts).await,
    };
    let (changed, unchanged, ran) = (outcome.changed, outcome.unchanged, outcome.ran);
    // A cluster whose control plane runs has a kubeconfig, even if a worker failed.
    let kubeconfig = match deployment.kubeconfig.get() {
        Some(text) => save_kubeconfig(journal, text)?,
        None => PathBuf::new(),
    };
    let judged = judge(outcome, unreachable);
    if judged.is_err() && deployment.kubeconfig.get().is_some() {
        events.note(format!("the kubeconfig is {}", kubeconfig.display()));
    }
    judged?;
    if known.is_incomplete() {
        let observed = session::watched(&hosts, events);
        known.end_install(cluster, &session::gather(cluster, &observed).await?)?;
    }
    let observed = session::watched(&hosts, events);
    keep_super_admin(&deployment.super_admin, cluster, &observed, journal).await?;
    events.emit(Event::Summary {
        changed,
        unchanged,
        ran,
        kubeconfig: Some(kubeconfig.display().to_string()),
    });
    if !failed.is_empty() {
        events.note(format!("the kubeconfig is {}", kubeconfig.display()));
        return Err(failed.into_error());
    }
    Ok(InstallReport {
        changed,
        unchanged,
        ran,
        kubeconfig,
        total: clock.began.elapsed(),
        phases: clock.laps,
    })
}

/// Writes the administrator's kubeconfig to the state directory, and returns its path.
fn save_kubeconfig(journal: &Journal, text: &str) -> Result<PathBuf, CommandError> {
    let saved = journal.save("admin.conf", text.as_bytes());
    saved.map_err(|error| FileError::io("write admin.conf in", journal.folder(), &error).into())
}

/// Stores super-admin.conf in the state directory and then removes it from the first control plane. An install that
/// is interrupted in between fetches the file again.
async fn keep_super_admin(
    super_admin: &TaskValue<String>,
    cluster: &Cluster,
    hosts: &Hosts,
    journal: &Journal,
) -> Result<(), CommandError> {
    let (Some(text), Some(name)) = (super_admin.get(), cluster.roles.control_plane.first()) else {
        return Ok(());
    };
    let Some(host) = hosts.get(name).filter(|_| !text.is_empty()) else {
        return Ok(());
    };
    let folder = journal.folder();
    journal
        .save("super-admin.conf", text.as_bytes())
        .map_err(|error| FileError::io("write super-admin.conf in", folder, &error))?;
    let action = "remove super-admin.conf from the host";
    let remove = Command::script(REMOVE_SUPER_ADMIN, [""; 0]).describe(action);
    let output = host.run(remove).await?;
    let failed = |error| StepFailures {
        failed: vec![(
            TaskId(format!("cluster/ready@{name}")),
            action.to_owned(),
            error,
        )],
        unreachable: Vec::new(),
        left: LeftOver {
            running: 0,
            waiting: 0,
        },
    };
    StepError::unless_done(action, output)
        .map_err(|error| CommandError::Steps(failed(error)))
        .map(|_| ())
}

const REMOVE_SUPER_ADMIN: &str =
    "rm -f /etc/kubernetes/super-admin.conf; sync /etc/kubernetes 2>/dev/null || sync";

/// Connects to the hosts, checks them, and plans for them. Changes no host and no state.
///
/// # Errors
/// The bundle or the cluster file is wrong, or hosts cannot be reached.
#[tracing::instrument(skip_all, fields(cluster = %options.source.cluster.display()))]
pub async fn dry_run(
    options: &InstallOptions,
    events: &Events,
    stop: &Stop,
) -> Result<DryRun, CommandError> {
    let (bundle, cluster) = options.source.open_to_install(options.unsigned, events)?;
    let state = options.connection.state_directory(&cluster, events)?;
    rollback::check(&state, bundle.bundle(), options.allow_older, events)?;
    let looking = async {
        let hosts = options.connection.connect(&cluster, &state, events).await?;
        let hosts = session::watched(&hosts, events);
        let facts = session::gather(&cluster, &hosts).await?;
        notices::emit_experimental_hosts(&facts, events);
        let known = KnownCluster::read(&cluster, &state)?;
        known.origins(&cluster, &facts, events)?;
        let mut findings = preflight::check(&cluster, &hosts, &facts, &bundle).await;
        findings.extend(known.findings(&cluster, &facts));
        let inputs = inputs_without_certificates(&cluster, &bundle, &facts);
        let planned = kubexm_deploy::plan(&inputs);
        if planned.is_err() {
            // A host of an unexpected kind explains more than what the bundle does not have for it.
            preflight::report(&findings, events)?;
        }
        let planned = Planned {
            plan: planned?.plan,
        };
        let is_refused = findings.iter().any(|finding| finding.fatal);
        let is_installed = facts.values().any(Facts::is_node);
        let diff = match is_installed && !is_refused {
            true => {
                let certificates = certificates::preview(&cluster, &state)?;
                let known = self::inputs(&cluster, &bundle, &facts, certificates);
                Some(crate::plan::compare(&known, &hosts).await?)
            }
            false => None,
        };
        Ok(DryRun {
            planned,
            diff,
            findings,
        })
    };
    unless_stopped(stop, looking).await
}

/// What is known before the first change on a host.
struct Prepared {
    hosts: Hosts,
    facts: BTreeMap<HostName, Facts>,
    known: KnownCluster,
    origins: Origins,
    failed: FailedWorkers,
    deployment: Deployment,
}

/// Everything before the first change on a host, apart from its lock.
async fn prepare(
    context: &Context<'_>,
    locks: &mut Option<HostLocks>,
    clock: &mut Clock,
) -> Result<Prepared, CommandError> {
    let Context {
        bundle,
        cluster,
        events,
        ..
    } = *context;
    let state = context.journal.folder();
    events.phase("verify");
    verify(bundle, events).await?;
    clock.lap("verify");
    events.phase("connect");
    let mut failed = FailedWorkers::new(cluster, context.options.allow_failed);
    let connection = &context.options.connection;
    let (hosts, errors) = connection.connect_each(cluster, state, events).await?;
    failed.leave_out_hosts(errors, events)?;
    let mut hosts = session::logged(hosts, state);
    let mut observed = session::watched(&hosts, events);
    let taken = session::lock(&observed, context.journal, "install", events, context.stop).await?;
    *locks = Some(taken);
    let (mut facts, errors) = session::gather_each(cluster, &observed).await;
    failed.leave_out_hosts(errors, events)?;
    failed.remove_from(&mut hosts, &mut facts);
    failed.remove_from(&mut observed, &mut facts);
    clock.lap("connect");
    events.phase("preflight");
    notices::emit_experimental_hosts(&facts, events);
    let known = KnownCluster::read(cluster, state)?;
    let origins = known.origins(cluster, &facts, events)?;
    let mut findings = preflight::check(cluster, &observed, &facts, bundle).await;
    findings.extend(known.findings(cluster, &facts));
    failed.leave_out_findings(&mut findings, events);
    preflight::report(&findings, events)?;
    failed.remove_from(&mut hosts, &mut facts);
    let deployment = planned(context, &facts, &failed)?;
    clock.lap("preflight and plan");
    Ok(Prepared {
        hosts,
        facts,
        known,
        origins,
        failed,
        deployment,
    })
}

/// Plans for the hosts without the workers that the install leaves out.
fn planned(
    context: &Context<'_>,
    facts: &BTreeMap<HostName, Facts>,
    failed: &FailedWorkers,
) -> Result<Deployment, CommandError> {
    let (cluster, bundle) = (context.cluster, context.bundle);
    let encryption = context.options.ca_encryption.as_ref();
    let identity = encryption.map(CaEncryption::identity).transpose()?;
    let state = context.journal.folder();
    let certificates = certificates::load_or_issue(cluster, state, identity)?;
    let mut inputs = inputs(cluster, bundle, facts, certificates);
    inputs.absent = failed.names();
    Ok(kubexm_deploy::plan(&inputs)?)
}

/// Compares every byte of the bundle with its digests before any of it reaches a host.
async fn verify(bundle: &Arc<BundleSet>, events: &Events) -> Result<(), CommandError> {
    let watch = Watch::without_host(events, "verify the bundle");
    let (bundle, events) = (Arc::clone(bundle), watch.events());
    let verifying = tokio::task::spawn_blocking(move || bundle.verify(threads(), &events));
    let verified = watch.during(verifying).await;
    Ok(verified.map_err(CommandError::bundle)??)
}

/// Returns what a plan is computed from, with placeholders instead of certificates.
pub(crate) fn inputs_without_certificates<'a>(
    cluster: &'a Cluster,
    bundle: &'a Arc<BundleSet>,
    facts: &BTreeMap<HostName, Facts>,
) -> Inputs<'a> {
    let mut inputs = Inputs::assumed(cluster, bundle.lock(), Arc::clone(bundle) as _);
    for (name, facts) in facts {
        if let Some(host) = inputs.hosts.get_mut(name) {
            *host = preflight::host_facts(facts.arch().unwrap_or(host.arch), facts);
        }
    }
    inputs
}

/// Returns everything that the plan is computed from.
pub(crate) fn inputs<'a>(
    cluster: &'a Cluster,
    bundle: &'a Arc<BundleSet>,
    facts: &BTreeMap<HostName, Facts>,
    certificates: Certificates,
) -> Inputs<'a> {
    let hosts = facts.iter().filter_map(|(name, facts)| {
        let host = preflight::host_facts(facts.arch()?, facts);
        Some((name.clone(), host))
    });
    Inputs {
        cluster,
        lock: bundle.lock(),
        blobs: Arc::clone(bundle) as _,
        hosts: hosts.collect(),
        absent: BTreeSet::new(),
        certificates,
    }
}

/// Returns the failure of a run in which a step failed or which the user stopped.
fn judge(outcome: Outcome, unreachable: Vec<HostError>) -> Result<(), CommandError> {
    let left = left_over(&outcome);
    if !outcome.failed.is_empty() {
        return Err(CommandError::Steps(StepFailures {
            failed: outcome.failed,
            unreachable,
            left,
        }));
    }
    match outcome.interrupted {
        true => Err(CommandError::Interrupted(format!(
            "stopped{left}\nhint: {AGAIN}"
        ))),
        false => Ok(()),
    }
}

/// Counts the tasks that did not end.
fn left_over(outcome: &Outcome) -> LeftOver {
    let skipped = outcome.skipped.iter();
    let running = skipped
        .filter(|(_, why)| *why == SkipReason::LeftRunning)
        .count();
    LeftOver {
        running,
        waiting: outcome.skipped.len() - running,
    }
}

/// Measures the phases of a command.
struct Clock {
    began: Instant,
    last: Instant,
    laps: Vec<(&'static str, Duration)>,
}

impl Clock {
    fn start() -> Self {
        Self {
            began: Instant::now(),
            last: Instant::now(),
            laps: Vec::new(),
        }
    }

    fn lap(&mut self, phase: &'static str) {
        self.laps.push((phase, self.last.elapsed()));
        self.last = Instant::now();
    }
}

/// Counts the steps that end.
fn with_counter(events: &Events, deployment: &Deployment) -> Events {
    struct Counted(Events, Counter);
    impl Listener for Counted {
        fn on(&self, event: &Event) {
            if let Event::Step { state, .. } = event
                && *state != StepState::Started
            {
                self.1.advance();
            }
            self.0.emit(event.clone());
        }
    }
    let counter = Counter::new(events.clone(), "steps");
    let tasks = deployment.plan.tasks.iter();
    counter.expect(tasks.map(|task| task.steps.len()).sum());
    Events::new(Arc::new(Counted(events.clone(), counter)))
}

/// Emits events to the caller and to the journal.
pub(crate) fn with_journal(events: Events, journal: Arc<Journal>) -> Events {
    struct Both(Events, Arc<Journal>);
    impl Listener for Both {
        fn on(&self, event: &Event) {
            self.0.emit(event.clone());
            if !matches!(event, Event::Progress { .. }) {
                self.1.on(event);
            }
        }
    }
    Events::new(Arc::new(Both(events, journal)))
}

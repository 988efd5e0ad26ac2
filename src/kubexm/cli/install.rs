//! `kubexm install` and `kubexm plan`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;

use super::out::{self, say};
use super::session::{self, Connection};
use super::subject::Subject;
use super::{Failure, bundle, interrupt};
use crate::report::Output;
use kubexm_bundle::Whole;
use kubexm_config::Cluster;
use kubexm_deploy::{DeployError, Inputs};
use kubexm_engine::plan;
use kubexm_engine::plan::{Journal, Outcome, Skip};
use kubexm_host::HostError;
use kubexm_preflight::Finding;
use kubexm_types::event::{Event, Events, Listener};

#[derive(Debug, Args)]
pub struct Install {
    #[command(flatten)]
    subject: Subject,
    #[command(flatten)]
    connection: Connection,
    /// Look at the hosts, print the whole plan, touch nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    subject: Subject,
}

impl From<DeployError> for Failure {
    fn from(error: DeployError) -> Self {
        match error {
            DeployError::Incomplete(_) => Self::bundle(error),
            other => Self::configuration(other),
        }
    }
}

/// Prints the plan that a first install would follow; needs no host.
pub fn show(arguments: &Plan) -> Result<(), Failure> {
    let (bundle, cluster) = arguments.subject.open()?;
    let deployment = kubexm_deploy::plan(&Inputs::unseen(
        &cluster,
        bundle.lock(),
        Arc::clone(&bundle) as _,
    ))?;
    out::text(&plan::show::show(&deployment.plan).map_err(Failure::configuration)?);
    Ok(())
}

/// Installs a cluster, or goes on with an install that was stopped.
pub async fn run(arguments: &Install, output: Output, events: &Events) -> Result<(), Failure> {
    let mut clock = Clock::start();
    let (opened, cluster) = arguments.subject.open()?;
    let folder = arguments.connection.state_folder(&cluster);
    let stop = interrupt::watch(events, interrupt::STOPPING_STEPS);
    if arguments.dry_run {
        let looking = dry_run(arguments, &cluster, &opened, events, output);
        return interrupt::unless_stopped(&stop, looking).await;
    }
    let journal = Arc::new(session::journal(&folder)?);
    journal.begin("install", &opened.bundle().lock_digest().to_string());
    let events = both(events.clone(), Arc::clone(&journal));
    let preparing = async {
        events.phase("verify");
        verify(&opened, &events).await?;
        clock.lap("verify");
        events.phase("connect");
        let hosts = arguments.connection.connect(&cluster).await?;
        let facts = session::gather(&cluster, &hosts).await?;
        clock.lap("connect");
        events.phase("preflight");
        let findings = session::preflight(&cluster, &hosts, &facts, &opened).await;
        judge(&findings, &events)?;
        let inputs = session::inputs(&cluster, &opened, &facts, &folder)?;
        let deployment = kubexm_deploy::plan(&inputs)?;
        clock.lap("preflight and plan");
        Ok((hosts, deployment))
    };
    let (hosts, deployment) = interrupt::unless_stopped(&stop, preparing).await?;
    events.phase("apply");
    let outcome = plan::execute(deployment.plan, &hosts, &events, &stop)
        .await
        .map_err(Failure::configuration)?;
    clock.lap("apply");
    let silent = match outcome.failed.is_empty() {
        true => Vec::new(),
        false => session::silent(&hosts).await,
    };
    finish(&outcome, &silent)?;
    let kubeconfig = deployment.kubeconfig.get().cloned().unwrap_or_default();
    let path = journal
        .save("admin.conf", kubeconfig.as_bytes())
        .map_err(|error| Failure::configuration(format!("{}: {error}", folder.display())))?;
    events.tell(Event::Summary {
        changed: outcome.changed,
        unchanged: outcome.unchanged,
        kubeconfig: Some(path.display().to_string()),
    });
    if output != Output::Json {
        summary(&outcome, &clock);
        say!("kubeconfig: {}", path.display());
    }
    Ok(())
}

async fn dry_run(
    arguments: &Install,
    cluster: &Cluster,
    opened: &Arc<Whole>,
    events: &Events,
    output: Output,
) -> Result<(), Failure> {
    let hosts = arguments.connection.connect(cluster).await?;
    let facts = session::gather(cluster, &hosts).await?;
    let findings = session::preflight(cluster, &hosts, &facts, opened).await;
    let mut inputs = Inputs::unseen(cluster, opened.lock(), Arc::clone(opened) as _);
    for (name, facts) in &facts {
        if let Some(machine) = inputs.machines.get_mut(name) {
            *machine = session::machine(facts.arch().unwrap_or(machine.arch), facts);
        }
    }
    let planned = kubexm_deploy::plan(&inputs);
    if planned.is_err() {
        // A host that is not as it should be explains more than what the bundle lacks for it.
        judge(&findings, events)?;
    }
    let deployment = planned?;
    if output == Output::Json {
        plan::show::tell(&deployment.plan, events).map_err(Failure::configuration)?;
    } else {
        out::text(&plan::show::show(&deployment.plan).map_err(Failure::configuration)?);
    }
    judge(&findings, events)?;
    events.note("dry run: nothing was touched");
    Ok(())
}

/// Every byte of the bundle is checked before any of it reaches a host.
async fn verify(opened: &Arc<Whole>, events: &Events) -> Result<(), Failure> {
    let (opened, events) = (Arc::clone(opened), events.clone());
    tokio::task::spawn_blocking(move || opened.verify(bundle::threads(), &events))
        .await
        .map_err(Failure::bundle)?
        .map_err(Failure::from)
}

/// Tells all findings, and fails with all errors at once.
fn judge(findings: &[Finding], events: &Events) -> Result<(), Failure> {
    for finding in findings {
        events.tell(Event::Finding {
            host: finding.host.clone(),
            fatal: finding.fatal,
            what: finding.what.clone(),
            hint: finding.hint.clone(),
        });
    }
    let fatal = findings.iter().filter(|finding| finding.fatal);
    let list: Vec<String> = fatal.map(ToString::to_string).collect();
    if list.is_empty() {
        return Ok(());
    }
    Err(Failure::configuration(format!(
        "the hosts are not ready; nothing was touched\n{}",
        list.join("\n")
    )))
}

/// Turns what did not go well into the command's failure.
fn finish(outcome: &Outcome, silent: &[HostError]) -> Result<(), Failure> {
    let mut left = String::new();
    let skipped = outcome.skipped.iter();
    let (running, waiting): (Vec<_>, Vec<_>) =
        skipped.partition(|(_, why)| *why == Skip::LeftRunning);
    if !running.is_empty() {
        left += &format!(
            "\n{} tasks did not end in time: their commands may still run on the hosts, and the \
             next run waits for them",
            running.len()
        );
    }
    if !waiting.is_empty() {
        left += &format!("\n{} tasks were not begun", waiting.len());
    }
    let again = interrupt::AGAIN;
    if !outcome.failed.is_empty() {
        let mut list: Vec<String> = outcome
            .failed
            .iter()
            .map(|(task, step, error)| format!("{task}: {step}: {error}"))
            .collect();
        let told = list.join("\n");
        list.extend(
            silent
                .iter()
                .map(ToString::to_string)
                .filter(|words| !told.contains(words)),
        );
        let message = format!("{}{left}\n{again}", list.join("\n"));
        let lost = !silent.is_empty()
            || outcome
                .failed
                .iter()
                .any(|(_, _, error)| error.is_loss_of_host());
        return Err(match lost {
            true => Failure::host(message),
            false => Failure::step(message),
        });
    }
    if outcome.interrupted {
        return Err(Failure::interrupted(format!("stopped{left}\n{again}")));
    }
    Ok(())
}

fn summary(outcome: &Outcome, clock: &Clock) {
    match outcome.changed {
        0 => say!(
            "nothing to change: all {} steps found the hosts as wanted",
            outcome.unchanged
        ),
        changed => say!(
            "{changed} steps changed something, {} did not need to",
            outcome.unchanged
        ),
    }
    let all = ("all", clock.began.elapsed());
    for (phase, time) in clock.laps.iter().chain([&all]) {
        say!("  {phase:20} {:>6.1} s", time.as_secs_f64());
    }
}

/// What each phase took.
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

/// Tells people and the journal.
fn both(events: Events, journal: Arc<Journal>) -> Events {
    struct Both(Events, Arc<Journal>);
    impl Listener for Both {
        fn on(&self, event: &Event) {
            self.0.tell(event.clone());
            self.1.on(event);
        }
    }
    Events::new(Arc::new(Both(events, journal)))
}

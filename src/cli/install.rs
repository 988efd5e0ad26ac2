//! `kubexm install` and `kubexm plan`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;

use super::out::{self, say};
use super::session::{self, Connection};
use super::{Failure, bundle};
use crate::bundle::Bundle;
use crate::deploy::{self, DeployError};
use crate::event::{Event, Events, Listener};
use crate::plan::{self, Journal, Outcome, Stop};
use crate::report::{self, Output};
use crate::spec::{self, Cluster};

#[derive(Debug, Args)]
pub struct Install {
    /// The bundle
    #[arg(long, value_name = "BUNDLE")]
    bundle: PathBuf,
    /// The cluster
    #[arg(short, long, value_name = "CLUSTER")]
    file: PathBuf,
    #[command(flatten)]
    connection: Connection,
    /// Look at the hosts, print the whole plan, touch nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
pub struct Plan {
    /// The bundle
    #[arg(long, value_name = "BUNDLE")]
    bundle: PathBuf,
    /// The cluster
    #[arg(short, long, value_name = "CLUSTER")]
    file: PathBuf,
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
    let bundle = Arc::new(Bundle::open(&arguments.bundle)?);
    let cluster = spec::load_cluster_for(&arguments.file, &bundle.lock().kubernetes)?;
    let deployment = deploy::plan(&session::inputs_without_hosts(&cluster, &bundle))?;
    out::text(&plan::show::show(&deployment.plan).map_err(Failure::configuration)?);
    Ok(())
}

/// Installs a cluster, or goes on with an install that was stopped.
pub async fn run(arguments: &Install, output: Output) -> Result<(), Failure> {
    let mut clock = Clock::start();
    let opened = Arc::new(Bundle::open(&arguments.bundle)?);
    let cluster = spec::load_cluster_for(&arguments.file, &opened.lock().kubernetes)?;
    let folder = arguments.connection.state_folder(&cluster);
    let events = report::events(output);
    if arguments.dry_run {
        return dry_run(arguments, &cluster, &opened, &events).await;
    }
    let journal = Arc::new(
        Journal::open(&folder)
            .map_err(|error| Failure::configuration(format!("{}: {error}", folder.display())))?,
    );
    journal.begin("install", &opened.lock_digest().to_string());
    let events = both(events, Arc::clone(&journal));

    events.phase("verify");
    verify(&opened, &events).await?;
    clock.lap("verify");
    events.phase("connect");
    let hosts = arguments.connection.connect(&cluster).await?;
    let facts = session::gather(&hosts).await?;
    clock.lap("connect");
    events.phase("preflight");
    judge(&session::preflight(&cluster, &facts, &opened), &events)?;
    let inputs = session::inputs(&cluster, &opened, &facts, &folder)?;
    let deployment = deploy::plan(&inputs)?;
    clock.lap("preflight and plan");
    events.phase("apply");
    let stop = stop_on_signal(&events);
    let outcome = plan::execute(deployment.plan, &hosts, &events, &stop)
        .await
        .map_err(Failure::configuration)?;
    clock.lap("apply");
    finish(&outcome)?;
    let kubeconfig = deployment.kubeconfig.get().cloned().unwrap_or_default();
    let path = journal
        .save("admin.conf", kubeconfig.as_bytes())
        .map_err(|error| Failure::configuration(format!("{}: {error}", folder.display())))?;
    if output != Output::Json {
        summary(&outcome, &clock);
        say!("kubeconfig: {}", path.display());
    }
    Ok(())
}

async fn dry_run(
    arguments: &Install,
    cluster: &Cluster,
    opened: &Arc<Bundle>,
    events: &Events,
) -> Result<(), Failure> {
    let hosts = arguments.connection.connect(cluster).await?;
    let facts = session::gather(&hosts).await?;
    let findings = session::preflight(cluster, &facts, opened);
    let mut inputs = session::inputs_without_hosts(cluster, opened);
    for (name, facts) in &facts {
        let (distribution, release) = facts.release();
        if let Some(machine) = inputs.machines.get_mut(name) {
            machine.release = Some((distribution.to_owned(), release.to_owned()));
            machine.has_name_server = facts.one("nameserver").is_some();
            machine.is_node = facts.is("initialized") || facts.is("joined");
        }
    }
    let deployment = deploy::plan(&inputs)?;
    out::text(&plan::show::show(&deployment.plan).map_err(Failure::configuration)?);
    judge(&findings, events)?;
    say!("dry run: nothing was touched");
    Ok(())
}

/// Every byte of the bundle is checked before any of it reaches a host.
async fn verify(opened: &Arc<Bundle>, events: &Events) -> Result<(), Failure> {
    let (opened, events) = (Arc::clone(opened), events.clone());
    tokio::task::spawn_blocking(move || opened.verify(bundle::threads(), &events))
        .await
        .map_err(Failure::bundle)?
        .map_err(Failure::from)
}

/// Tells warnings, and fails with all errors at once.
fn judge(findings: &[crate::host::preflight::Finding], events: &Events) -> Result<(), Failure> {
    let (fatal, warnings): (Vec<_>, Vec<_>) = findings.iter().partition(|finding| finding.fatal);
    for warning in warnings {
        events.warn(warning.to_string());
    }
    if fatal.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = fatal.iter().map(ToString::to_string).collect();
    Err(Failure::configuration(format!(
        "the hosts are not ready; nothing was touched\n{}",
        list.join("\n")
    )))
}

/// The first Ctrl-C lets running steps end; the second ends the program at once.
fn stop_on_signal(events: &Events) -> Stop {
    let stop: Stop = Arc::new(AtomicBool::new(false));
    let (flag, events) = (Arc::clone(&stop), events.clone());
    tokio::spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() {
            if flag.swap(true, Ordering::Relaxed) {
                std::process::exit(1);
            }
            events.note("stopping after the steps that are running; Ctrl-C again stops at once");
        }
    });
    stop
}

/// Turns what did not go well into the command's failure.
fn finish(outcome: &Outcome) -> Result<(), Failure> {
    let skipped = match outcome.skipped.len() {
        0 => String::new(),
        count => format!("\n{count} tasks were not begun"),
    };
    let again = "run the same command again to go on";
    if !outcome.failed.is_empty() {
        let list: Vec<String> = outcome
            .failed
            .iter()
            .map(|(task, step, error)| format!("{task}: {step}: {error}"))
            .collect();
        return Err(Failure::step(format!(
            "{}{skipped}\n{again}",
            list.join("\n")
        )));
    }
    if outcome.interrupted {
        return Err(Failure::interrupted(format!("stopped{skipped}; {again}")));
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
    for (phase, time) in &clock.laps {
        say!("  {phase:20} {:>6.1} s", time.as_secs_f64());
    }
    say!(
        "  {:20} {:>6.1} s",
        "all",
        clock.began.elapsed().as_secs_f64()
    );
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

//! `kubexm reset`: takes back what the receipts say, and nothing else.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use futures_util::future::join_all;

use super::interrupt::AGAIN;
use super::out::say;
use super::session::{self, Connection};
use super::{Failure, interrupt};
use crate::report::Output;
use kubexm_config::cluster::Etcd;
use kubexm_engine::plan::{Receipt, StepError, Stop};
use kubexm_engine::steps::Undo;
use kubexm_host::Host;
use kubexm_types::HostName;
use kubexm_types::event::{Event, Events, StepState};

#[derive(Debug, Args)]
pub struct Reset {
    /// The cluster
    #[arg(short, long, value_name = "CLUSTER")]
    file: PathBuf,
    #[command(flatten)]
    connection: Connection,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

/// Takes a cluster away from its hosts.
pub async fn run(arguments: &Reset, output: Output, events: &Events) -> Result<(), Failure> {
    let cluster = kubexm_config::load_cluster(&arguments.file)?;
    if !arguments.yes {
        confirm(&cluster.name)?;
    }
    let folder = arguments.connection.state_folder(&cluster);
    // Held until the end: no install may run at the same time.
    let journal = session::journal(&folder)?;
    journal.begin("reset", "");
    let stop = interrupt::watch(events, interrupt::STOPPING_STEPS);
    events.phase("connect");
    let connecting = arguments.connection.connect(&cluster);
    let hosts = interrupt::unless_stopped(&stop, connecting).await?;
    events.phase("reset");
    let resetting = join_all(hosts.values().map(|host| reset(host, events, &stop)));
    let Some(results) = interrupt::in_time(&stop, resetting).await else {
        return Err(Failure::interrupted(format!("stopped; {AGAIN}")));
    };
    let failures: Vec<String> = results
        .iter()
        .filter_map(|result| result.as_ref().err())
        .map(ToString::to_string)
        .collect();
    let lost = |error: &Broken| matches!(error, Broken::Step(_, StepError::Host(_)));
    if !failures.is_empty() {
        let message = format!("{}\n{AGAIN}", failures.join("\n"));
        return Err(
            match results
                .iter()
                .any(|result| result.as_ref().is_err_and(lost))
            {
                true => Failure::host(message),
                false => Failure::step(message),
            },
        );
    }
    if stop.is_cancelled() {
        return Err(Failure::interrupted(format!("stopped; {AGAIN}")));
    }
    let undone: usize = results
        .iter()
        .filter_map(|result| result.as_ref().ok())
        .sum();
    // Certificates and kubeconfig belong to a cluster that is no more.
    for name in ["admin.conf", "pki"] {
        let path = folder.join(name);
        let _ = if path.is_dir() {
            std::fs::remove_dir_all(&path)
        } else {
            std::fs::remove_file(&path)
        };
    }
    if let Etcd::External { endpoints, .. } = &cluster.etcd {
        events.note(format!(
            "the external etcd was left alone: it still holds the cluster's data, at {}; \
             etcdctl del --prefix {} removes it",
            endpoints.join(", "),
            cluster.etcd_prefix()
        ));
    }
    events.tell(Event::Summary {
        changed: undone,
        unchanged: 0,
        kubeconfig: None,
    });
    if output != Output::Json {
        say!("{undone} changes were taken back on {} hosts", hosts.len());
    }
    Ok(())
}

fn confirm(name: &str) -> Result<(), Failure> {
    use std::io::{BufRead, IsTerminal, Write};
    let refuse = || {
        Failure::configuration(
            "nothing was touched: confirm with the cluster's name, or pass --yes",
        )
    };
    if !std::io::stdin().is_terminal() {
        return Err(refuse());
    }
    eprint!("This takes the cluster '{name}' and all its data away. Type its name: ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(Failure::configuration)?;
    if answer.trim() == name {
        Ok(())
    } else {
        Err(refuse())
    }
}

/// Why a host could not be reset.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("{0}: the receipt holds a record that this kubexm cannot read: {1}")]
    Record(HostName, serde_json::Error),
    #[error("{}", named(.0, .1))]
    Step(HostName, StepError),
}

/// Errors of the host name it themselves.
fn named(host: &HostName, error: &StepError) -> String {
    match error {
        StepError::Host(error) => error.to_string(),
        other => format!("{host}: {other}"),
    }
}

/// Takes back a host's records, the last first; the receipt goes when all are done.
async fn reset(host: &Arc<dyn Host>, events: &Events, stop: &Stop) -> Result<usize, Broken> {
    let broken = |error: StepError| Broken::Step(host.name().clone(), error);
    let records = Receipt::read(host.as_ref()).await.map_err(broken)?;
    let mut done = 0;
    let mut seen = BTreeSet::new();
    for record in records.iter().rev() {
        if stop.is_cancelled() {
            return Ok(done);
        }
        let undo: Undo = serde_json::from_value(record.undo.clone())
            .map_err(|error| Broken::Record(host.name().clone(), error))?;
        if !seen.insert(record.undo.to_string()) {
            continue;
        }
        let began = Instant::now();
        let result = undo.revert(host.as_ref()).await;
        events.tell(Event::Step {
            host: host.name().clone(),
            module: "reset".to_owned(),
            task: "undo".to_owned(),
            step: undo.title(),
            state: match &result {
                Ok(()) => StepState::Reverted,
                Err(error) => StepState::Failed(error.to_string()),
            },
            elapsed: began.elapsed(),
        });
        result.map_err(broken)?;
        done += 1;
    }
    let reload = kubexm_host::Command::new("systemctl").arg("daemon-reload");
    let reloaded = host.run(reload).await;
    reloaded.map_err(|error| broken(StepError::Host(error)))?;
    Receipt::remove(host.as_ref()).await.map_err(broken)?;
    Ok(done)
}

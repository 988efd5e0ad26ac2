//! `kubexm reset`: takes back what the receipts say, and nothing else.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use futures_util::future::join_all;

use super::Failure;
use super::out::say;
use super::session::Connection;
use crate::event::{Event, Events, StepState};
use crate::host::Host;
use crate::plan::receipt::Receipt;
use crate::report::{self, Output};
use crate::spec;
use crate::steps::Undo;

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
pub async fn run(arguments: &Reset, output: Output) -> Result<(), Failure> {
    let cluster = spec::load_cluster(&arguments.file)?;
    if !arguments.yes {
        confirm(&cluster.name)?;
    }
    let hosts = arguments.connection.connect(&cluster).await?;
    let events = report::events(output);
    events.phase("reset");
    let results = join_all(hosts.values().map(|host| reset(host, &events))).await;
    let failures: Vec<String> = results
        .iter()
        .filter_map(|result| result.as_ref().err().cloned())
        .collect();
    if !failures.is_empty() {
        return Err(Failure::step(format!(
            "{}\nrun the same command again to go on",
            failures.join("\n")
        )));
    }
    let undone: usize = results
        .iter()
        .filter_map(|result| result.as_ref().ok())
        .sum();
    // Certificates and kubeconfig belong to a cluster that is no more.
    let folder = arguments.connection.state_folder(&cluster);
    for name in ["admin.conf", "pki"] {
        let path = folder.join(name);
        let _ = if path.is_dir() {
            std::fs::remove_dir_all(&path)
        } else {
            std::fs::remove_file(&path)
        };
    }
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

/// Takes back a host's records, the last first; the receipt goes when all are done.
async fn reset(host: &Arc<dyn Host>, events: &Events) -> Result<usize, String> {
    let fail = |error: &dyn std::fmt::Display| format!("{}: {error}", host.name());
    let records = Receipt::read(host.as_ref())
        .await
        .map_err(|error| fail(&error))?;
    let mut done = 0;
    let mut seen = BTreeSet::new();
    for record in records.iter().rev() {
        let undo: Undo = serde_json::from_value(record.undo.clone()).map_err(|error| {
            fail(&format!(
                "the receipt holds a record that this kubexm cannot read: {error}"
            ))
        })?;
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
        result.map_err(|error| fail(&error))?;
        done += 1;
    }
    let reload = crate::host::Command::new("systemctl").arg("daemon-reload");
    host.run(reload).await.map_err(|error| fail(&error))?;
    Receipt::remove(host.as_ref())
        .await
        .map_err(|error| fail(&error))?;
    Ok(done)
}

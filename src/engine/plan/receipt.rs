//! The receipt on a host: how to revert each change, in the order of the changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::step::{StepError, UndoLog};
use kubexm_host::{Command, Host, Input};
use kubexm_scripts::steps as scripts;

/// A line of the receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The id of the step that made the change.
    pub step: String,
    /// How to revert the change: an [`Undo`](crate::steps::Undo) as JSON.
    pub undo: serde_json::Value,
}

/// Prints the receipt. It fails if the receipt exists and cannot be read: an empty receipt would lose the
/// undo records.
const READ: &str = "[ ! -e /var/lib/kubexm/receipt.jsonl ] || cat /var/lib/kubexm/receipt.jsonl";

/// The receipt of one host.
pub struct Receipt {
    host: Arc<dyn Host>,
    /// The lines of the receipt; `None` before the first record.
    known: Mutex<Option<BTreeSet<String>>>,
}

impl Receipt {
    /// Creates the receipt of a host. The first record reads it.
    pub fn new(host: Arc<dyn Host>) -> Self {
        Self {
            host,
            known: Mutex::new(None),
        }
    }

    /// Returns all records, the oldest first.
    ///
    /// # Errors
    /// The receipt cannot be read, or a line is not a record.
    pub async fn read(host: &dyn Host) -> Result<Vec<Record>, StepError> {
        let action = "read the receipt";
        let command = Command::script(READ, [""; 0]).describe(action);
        let output = StepError::unless_done(action, host.run(command).await?)?;
        let text = output.text();
        let lines = text.lines().enumerate();
        lines
            .filter_map(|(at, line)| {
                parse(line)
                    .map_err(|error| damaged(at + 1, &error))
                    .transpose()
            })
            .collect()
    }

    /// Removes `/var/lib/kubexm` with the receipt.
    pub async fn remove(host: &dyn Host) -> Result<(), StepError> {
        let action = "remove the receipt";
        let command = Command::script("rm -rf /var/lib/kubexm", [""; 0]);
        let output = host.run(command.describe(action)).await?;
        StepError::unless_done(action, output).map(|_| ())
    }
}

/// Parses a line. Returns `None` for an incomplete line: a power failure or a broken connection cut it
/// off, before its change began. File systems fill data that did not reach the disk with zeros.
fn parse(line: &str) -> Result<Option<Record>, serde_json::Error> {
    match serde_json::from_str(line.trim_matches('\0')) {
        Ok(record) => Ok(Some(record)),
        Err(error) if error.is_eof() => Ok(None),
        Err(error) => Err(error),
    }
}

fn damaged(line: usize, error: &serde_json::Error) -> StepError {
    StepError::Other(format!(
        "line {line} of /var/lib/kubexm/receipt.jsonl is damaged: {error}\n\
         hint: revert by hand what the line describes, then remove the line"
    ))
}

#[async_trait]
impl UndoLog for Receipt {
    async fn record(&self, step: &str, undo: serde_json::Value) -> Result<(), StepError> {
        let record = Record {
            step: step.to_owned(),
            undo,
        };
        let line = serde_json::to_string(&record)
            .map_err(|error| StepError::Other(format!("cannot write the receipt: {error}")))?;
        let mut known = self.known.lock().await;
        if known.is_none() {
            let records = Self::read(self.host.as_ref()).await?;
            let lines = records
                .iter()
                .filter_map(|record| serde_json::to_string(record).ok());
            *known = Some(lines.collect());
        }
        let Some(known) = known.as_mut() else {
            return Ok(());
        };
        if known.contains(&line) {
            return Ok(());
        }
        let input = Input::Bytes(format!("{line}\n").into_bytes());
        let action = "write the receipt";
        let command = Command::from_script(scripts::RECEIPT_APPEND, [""; 0]).input(input);
        let output = self.host.run(command.describe(action)).await?;
        StepError::unless_done(action, output)?;
        known.insert(line);
        Ok(())
    }
}

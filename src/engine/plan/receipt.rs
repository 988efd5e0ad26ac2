//! The receipt on a host: how to take back what was done there, in the order in which it was done.

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
    /// The step that made it.
    pub step: String,
    /// How to take it back; only `steps` understands it.
    pub undo: serde_json::Value,
}

/// A receipt that cannot be read must never pass for an empty one.
const READ: &str = "[ ! -e /var/lib/kubexm/receipt.jsonl ] || cat /var/lib/kubexm/receipt.jsonl";

/// The receipt of one host.
pub struct Receipt {
    host: Arc<dyn Host>,
    known: Mutex<Option<BTreeSet<String>>>,
}

impl Receipt {
    /// The receipt of a host; it is read when the first record is made.
    pub fn of(host: Arc<dyn Host>) -> Self {
        Self {
            host,
            known: Mutex::new(None),
        }
    }

    /// All records, the first made first.
    ///
    /// # Errors
    /// The receipt cannot be read, or it holds what kubexm never wrote.
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

    /// Removes the receipt and all that kubexm keeps on the host about itself.
    pub async fn remove(host: &dyn Host) -> Result<(), StepError> {
        let action = "remove the receipt";
        let command = Command::script("rm -rf /var/lib/kubexm", [""; 0]);
        let output = host.run(command.describe(action)).await?;
        StepError::unless_done(action, output).map(|_| ())
    }
}

/// A line's record; `None` for a line that a power cut or a broken connection cut off (file
/// systems fill with zeros what did not reach the disk): it belongs to a change that was not begun.
fn parse(line: &str) -> Result<Option<Record>, serde_json::Error> {
    match serde_json::from_str(line.trim_matches('\0')) {
        Ok(record) => Ok(Some(record)),
        Err(error) if error.is_eof() => Ok(None),
        Err(error) => Err(error),
    }
}

fn damaged(line: usize, error: &serde_json::Error) -> StepError {
    StepError::Other(format!(
        "line {line} of /var/lib/kubexm/receipt.jsonl is damaged ({error}); what it says cannot be \
         taken back by kubexm: look at it, take back by hand what you can read, and remove the line"
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

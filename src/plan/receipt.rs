//! The receipt on a host: how to take back what was done there, in the order in which it was done.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::step::{StepError, UndoLog};
use crate::host::{Command, Host, Input};

/// A line of the receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The step that made it.
    pub step: String,
    /// How to take it back; only `steps` understands it.
    pub undo: serde_json::Value,
}

/// Appends durably; the folder is root's alone.
const APPEND: &str = r#"
umask 077
mkdir -p /var/lib/kubexm
cat >>/var/lib/kubexm/receipt.jsonl
sync /var/lib/kubexm/receipt.jsonl 2>/dev/null || sync
"#;

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
    pub async fn read(host: &dyn Host) -> Result<Vec<Record>, StepError> {
        let script = "cat /var/lib/kubexm/receipt.jsonl 2>/dev/null || :";
        let output = host
            .run(Command::script(script, [""; 0]).describe("read the receipt"))
            .await?;
        // A line that was cut off by a power cut belongs to a change that was not begun.
        Ok(output
            .text()
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect())
    }

    /// Removes the receipt and all that kubexm keeps on the host about itself.
    pub async fn remove(host: &dyn Host) -> Result<(), StepError> {
        let command = Command::script("rm -rf /var/lib/kubexm", [""; 0]);
        let output = host.run(command.describe("remove the receipt")).await?;
        if output.success() {
            return Ok(());
        }
        let (status, complaint) = (output.status, output.complaint());
        Err(StepError::Command {
            action: "remove the receipt".to_owned(),
            status,
            complaint,
        })
    }
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
        if !known.insert(line.clone()) {
            return Ok(());
        }
        let input = Input::Bytes(format!("{line}\n").into_bytes());
        let command = Command::script(APPEND, [""; 0])
            .input(input)
            .describe("write the receipt");
        let output = self.host.run(command).await?;
        if output.success() {
            return Ok(());
        }
        let (status, complaint) = (output.status, output.complaint());
        Err(StepError::Command {
            action: "write the receipt".to_owned(),
            status,
            complaint,
        })
    }
}

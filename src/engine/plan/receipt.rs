//! The receipt on a host: how to revert each change, in the order of the changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::step::{StepError, UndoLog};
use kubexm_host::{Command, Host, Input};
use kubexm_scripts::steps as scripts;
use kubexm_types::{ClusterId, ClusterIdentity, Message};

/// A line of the receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The id of the step that made the change.
    pub step: String,
    /// How to revert the change: an [`Undo`](crate::steps::Undo) as JSON.
    pub undo: serde_json::Value,
    /// The cluster for which kubexm made the change; `None` in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterId>,
}

impl Record {
    /// Returns what identifies a record: step and undo, without the cluster. After an update of kubexm the
    /// host still has records without a cluster.
    fn key(&self) -> String {
        format!("{} {}", self.step, self.undo)
    }
}

/// Prints the receipt. It fails if the receipt exists and cannot be read: an empty receipt would lose the
/// undo records. So would a receipt that is longer than the output of a command can be.
const READ: &str = "file=/var/lib/kubexm/receipt.jsonl; [ -e \"$file\" ] || exit 0; size=$(wc -c <\"$file\"); \
    [ \"$size\" -le 8388608 ] || { echo \"$file has $size bytes; a receipt has at most 8 MiB\" >&2; exit 1; }; \
    cat \"$file\"";
/// Prints the host's record of its cluster.
const CLUSTER: &str = "[ ! -e /var/lib/kubexm/cluster ] || cat /var/lib/kubexm/cluster";

/// The receipt of one host.
pub struct Receipt {
    host: Arc<dyn Host>,
    /// What the receipt contains; `None` before the first record.
    known: Mutex<Option<Known>>,
}

/// What a receipt contains.
struct Known {
    /// The keys of all records.
    records: BTreeSet<String>,
    /// The cluster that the host belongs to.
    cluster: Option<ClusterId>,
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

    /// Returns the cluster that the host belongs to; `None` if an earlier version of kubexm installed it.
    ///
    /// # Errors
    /// The host's record cannot be read, or is damaged.
    pub async fn cluster(host: &dyn Host) -> Result<Option<ClusterId>, StepError> {
        let action = "read to which cluster the host belongs";
        let command = Command::script(CLUSTER, [""; 0]).describe(action);
        let output = StepError::unless_done(action, host.run(command).await?)?;
        let text = output.text();
        if text.is_empty() {
            return Ok(None);
        }
        let identity = ClusterIdentity::from_json(&text).map_err(|error| {
            StepError::Other(format!("/var/lib/kubexm/cluster: {error}").into())
        })?;
        Ok(Some(identity.id))
    }

    /// Removes records whose changes were reverted.
    ///
    /// # Errors
    /// The command fails, or the connection to the host breaks.
    pub async fn forget(host: &dyn Host, records: &[Record]) -> Result<(), StepError> {
        let mut lines = String::new();
        for record in records {
            let line = serde_json::to_string(record).map_err(|error| {
                StepError::Other(format!("cannot write the receipt: {error}").into())
            })?;
            lines.push_str(&line);
            lines.push('\n');
        }
        let action = "remove records from the receipt";
        let command = Command::from_script(scripts::RECEIPT_FORGET, [""; 0])
            .input(Input::Bytes(lines.into_bytes()))
            .describe(action);
        StepError::unless_done(action, host.run(command).await?)?;
        Ok(())
    }

    /// Removes `/var/lib/kubexm` with the receipt. Returns the output, which names what stays.
    ///
    /// # Errors
    /// The command fails, or the connection to the host breaks.
    pub async fn remove(host: &dyn Host) -> Result<String, StepError> {
        let action = "remove the receipt";
        let command = Command::from_script(scripts::RECEIPT_REMOVE, [""; 0]);
        let output = host.run(command.describe(action)).await?;
        Ok(StepError::unless_done(action, output)?.text())
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
    let text = format!("line {line} of /var/lib/kubexm/receipt.jsonl is damaged: {error}");
    let hint = "revert by hand what the line describes, then remove the line";
    StepError::Other(Message::new(text).hint(hint))
}

#[async_trait]
impl UndoLog for Receipt {
    async fn record(&self, step: &str, undo: serde_json::Value) -> Result<(), StepError> {
        let mut known = self.known.lock().await;
        let known = match &mut *known {
            Some(known) => known,
            none => {
                let records = Self::read(self.host.as_ref()).await?;
                none.insert(Known {
                    records: records.iter().map(Record::key).collect(),
                    cluster: Self::cluster(self.host.as_ref()).await?,
                })
            }
        };
        let record = Record {
            step: step.to_owned(),
            undo,
            cluster: known.cluster,
        };
        if known.records.contains(&record.key()) {
            return Ok(());
        }
        let line = serde_json::to_string(&record).map_err(|error| {
            StepError::Other(format!("cannot write the receipt: {error}").into())
        })?;
        let input = Input::Bytes(format!("{line}\n").into_bytes());
        let action = "write the receipt";
        let command = Command::from_script(scripts::RECEIPT_APPEND, [""; 0]).input(input);
        let output = self.host.run(command.describe(action)).await?;
        StepError::unless_done(action, output)?;
        known.records.insert(record.key());
        Ok(())
    }
}

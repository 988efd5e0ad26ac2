//! Undo records: how a reset reverts a change.
//!
//! A receipt is a file on a host. It can be damaged, forged, or written by another version. Therefore a record only
//! names what to do; [`Undo::validate`] decides what a reset runs.

mod revert;

pub(crate) use revert::kept;
pub use revert::{Refusal, Revert};

use serde::{Deserialize, Serialize};

use crate::plan::StepError;
use kubexm_scripts::undo::UndoScript;
use kubexm_types::{HostPath, Message};

/// How to revert one change. A record is harmless if the change never happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum Undo {
    /// Removes a file that did not exist before, and the empty directories that were created for it.
    RemoveFile {
        path: HostPath,
        /// Directories that were created for the file, the innermost first.
        folders: Vec<HostPath>,
    },
    /// Restores the former content of a file from a copy on the host.
    RestoreFile {
        path: HostPath,
        /// The path of the copy.
        backup: HostPath,
    },
    /// Removes what programs of the cluster stored in a directory that did not exist before
    /// ([`content`](kubexm_scripts::undo::directories::content)), and the directory if nothing else is in it.
    RemoveDirectory { path: HostPath },
    /// Runs a script of [`SCRIPTS`](kubexm_scripts::undo::SCRIPTS).
    Run {
        /// The name of the script.
        script: String,
        /// `$1`, `$2`…
        arguments: Vec<String>,
    },
    /// A record of an earlier version: removes a directory with its content.
    RemoveTree { path: HostPath },
    /// A record of an earlier version: the text of a script. A reset never runs it.
    Script {
        /// What the script does.
        title: String,
        /// The text of the script.
        script: String,
        /// `$1`, `$2`…
        arguments: Vec<String>,
    },
}

impl Undo {
    /// Creates a record that runs a script.
    pub fn run<I, S>(script: UndoScript, arguments: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        Self::Run {
            script: script.script.name.to_owned(),
            arguments: arguments.into_iter().map(Into::into).collect(),
        }
    }

    /// Returns the record as JSON, for the receipt.
    ///
    /// # Errors
    /// No reset would accept the record, or `serde_json` cannot serialize it.
    pub fn to_value(&self) -> Result<serde_json::Value, StepError> {
        self.validate().map_err(|refusal| {
            let text = format!("a reset could not revert this change: {refusal}");
            StepError::Other(Message::new(text).hint("choose another path in the cluster file"))
        })?;
        serde_json::to_value(self).map_err(|error| StepError::Other(error.to_string().into()))
    }
}

#[cfg(test)]
mod tests;

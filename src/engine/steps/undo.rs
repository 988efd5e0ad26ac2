//! Undo records: how a reset reverts a change.

use serde::{Deserialize, Serialize};

use crate::plan::StepError;
use kubexm_host::{Command, Host};
use kubexm_scripts::Script;
use kubexm_scripts::steps as scripts;
use kubexm_types::HostPath;

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
    /// Removes a directory with its content.
    RemoveTree { path: HostPath },
    /// Runs a script with arguments.
    Script {
        /// What the script does, for the user.
        title: String,
        /// The text of the script, in POSIX shell.
        script: String,
        /// `$1`, `$2`…
        arguments: Vec<String>,
    },
}

impl Undo {
    /// Creates a record from a script, its verb and `arguments`. The record contains the text of the script,
    /// because a later version of kubexm may not have this script.
    pub fn script<I, S>(title: impl Into<String>, script: impl Into<Script>, arguments: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        let script: Script = script.into();
        Self::Script {
            title: title.into(),
            script: script.text.to_owned(),
            arguments: script.arguments(arguments).collect(),
        }
    }

    /// Returns what the record does, for the user.
    pub fn title(&self) -> String {
        match self {
            Self::RemoveFile { path, .. } => format!("Remove {path}"),
            Self::RestoreFile { path, .. } => format!("Restore {path}"),
            Self::RemoveTree { path } => format!("Remove {path} with its content"),
            Self::Script { title, .. } => title.clone(),
        }
    }

    /// Reverts the change.
    ///
    /// # Errors
    /// The command fails, or the connection to the host breaks.
    pub async fn revert(&self, host: &dyn Host) -> Result<(), StepError> {
        let command = match self {
            Self::RemoveFile { path, folders } => {
                let folders = folders.iter().map(ToString::to_string);
                Command::from_script(
                    scripts::FILE_REMOVE,
                    std::iter::once(path.to_string()).chain(folders),
                )
            }
            Self::RestoreFile { path, backup } => Command::from_script(
                scripts::FILE_RESTORE,
                [path.to_string(), backup.to_string()],
            ),
            Self::RemoveTree { path } => {
                Command::from_script(scripts::REMOVE_TREE, [path.to_string()])
            }
            Self::Script {
                script, arguments, ..
            } => Command::script(script, arguments.clone()),
        };
        let output = host.run(command.describe(self.title())).await?;
        StepError::unless_done(&self.title(), output).map(|_| ())
    }

    /// Returns the record as JSON, for the receipt.
    ///
    /// # Errors
    /// `serde_json` cannot serialize the record.
    pub fn to_value(&self) -> Result<serde_json::Value, StepError> {
        serde_json::to_value(self).map_err(|error| StepError::Other(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_host::local::LocalHost;

    /// The script of this record is not part of this version.
    #[tokio::test]
    async fn record_of_an_earlier_version_runs() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a file");
        std::fs::write(&file, "").unwrap();
        let record = serde_json::json!({
            "kind": "script",
            "title": "Give NetworkManager all interfaces again",
            "script": "\nrm -f \"$1\" \"$1.partial\"\nsystemctl reload none 2>/dev/null || :\n",
            "arguments": [file.to_str().unwrap(), "text"],
        });
        let undo: Undo = serde_json::from_value(record.clone()).unwrap();
        assert_eq!(undo.to_value().unwrap(), record);
        let host = LocalHost::new("here".parse().unwrap());
        undo.revert(&host).await.unwrap();
        assert!(!file.exists());
        undo.revert(&host).await.unwrap();
    }

    #[test]
    fn record_contains_text_and_verb_of_its_script() {
        let script = kubexm_scripts::network::REMOVE_LEFTOVERS;
        let undo = Undo::script("Remove", script.verb("calico"), ["more"]);
        let expected = Undo::Script {
            title: "Remove".to_owned(),
            script: script.text.to_owned(),
            arguments: vec!["calico".to_owned(), "more".to_owned()],
        };
        assert_eq!(undo, expected);
    }
}

//! Taking back: what receipts say and how it is done.

use serde::{Deserialize, Serialize};

use crate::plan::StepError;
use kubexm_host::{Command, Host};
use kubexm_scripts::Script;
use kubexm_scripts::steps as scripts;
use kubexm_types::HostPath;

/// How one change is taken back. Each is harmless where the change never happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum Undo {
    /// Removes a file that was not there before, and folders that were made for it and are empty.
    RemoveFile {
        /// The file.
        path: HostPath,
        /// Folders that were made for it, the innermost first.
        folders: Vec<HostPath>,
    },
    /// Puts back a file's former content from a copy on the host.
    RestoreFile {
        /// The file.
        path: HostPath,
        /// The copy.
        backup: HostPath,
    },
    /// Removes a folder with all that is in it.
    RemoveTree {
        /// The folder.
        path: HostPath,
    },
    /// Runs a script with arguments.
    Script {
        /// What it does, in words.
        title: String,
        /// POSIX shell.
        script: String,
        /// `$1`, `$2`…
        arguments: Vec<String>,
    },
}

impl Undo {
    /// A script with its verb and `arguments`. The record keeps the text: a later version of kubexm may not
    /// have this script any more.
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

    /// What it does, in words.
    pub fn title(&self) -> String {
        match self {
            Self::RemoveFile { path, .. } => format!("Remove {path}"),
            Self::RestoreFile { path, .. } => format!("Restore {path}"),
            Self::RemoveTree { path } => format!("Remove {path} with all in it"),
            Self::Script { title, .. } => title.clone(),
        }
    }

    /// Takes the change back.
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

    /// For the receipt.
    pub fn to_value(&self) -> Result<serde_json::Value, StepError> {
        serde_json::to_value(self).map_err(|error| StepError::Other(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_host::local::LocalHost;

    /// A receipt keeps the text of a script, so that a script that this version does not have still runs.
    #[tokio::test]
    async fn a_record_of_an_earlier_version_runs() {
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
    fn a_record_holds_the_text_and_the_verb_of_its_script() {
        let script = kubexm_scripts::network::REMOVE_TRACES;
        let undo = Undo::script("Remove", script.verb("calico"), ["more"]);
        let expected = Undo::Script {
            title: "Remove".to_owned(),
            script: script.text.to_owned(),
            arguments: vec!["calico".to_owned(), "more".to_owned()],
        };
        assert_eq!(undo, expected);
    }
}

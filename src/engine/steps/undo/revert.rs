//! Validated undo records.

use std::time::Duration;

use super::Undo;
use crate::plan::StepError;
use kubexm_host::{Command, Host, Limit};
use kubexm_scripts::steps as scripts;
use kubexm_scripts::undo::directories::{self, Content};
use kubexm_scripts::undo::{self, Parameter, UndoScript, earlier};
use kubexm_types::{Digest, HostPath};

/// How long one change may take to revert: pods have time to end, and directories may have millions of files.
const LIMIT: Limit = Limit::new(Duration::from_secs(1800), "reverts of changes");

/// The directory with copies of former files.
const BACKUP: &str = "/var/lib/kubexm/backup/";

/// Why a reset does not run a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The path belongs to the operating system or to users.
    #[error("{0} is a path of the operating system, which a reset never deletes")]
    Protected(HostPath),
    /// A directory that was created for a file does not contain the file.
    #[error("{folder} is not a directory of {path}")]
    NotADirectoryOf { folder: HostPath, path: HostPath },
    /// The copy of a file is not where kubexm keeps copies.
    #[error("{0} is not a copy that kubexm made")]
    NotACopy(HostPath),
    /// No version of kubexm has a script of this name or text.
    #[error("{0} is not an undo script of kubexm")]
    UnknownScript(String),
    /// An argument of a script has another type.
    #[error("the arguments {arguments:?} are not valid for {script}")]
    Arguments {
        script: &'static str,
        arguments: Vec<String>,
    },
}

/// What a reset runs to revert a change: a script of this version with valid arguments.
#[derive(Debug, Clone)]
pub struct Revert {
    title: String,
    script: kubexm_scripts::Script,
    arguments: Vec<String>,
}

impl Undo {
    /// Returns what a reset runs for the record, in this order.
    ///
    /// # Errors
    /// The record is not one that kubexm writes.
    pub fn validate(&self) -> Result<Vec<Revert>, Refusal> {
        match self {
            Self::RemoveFile { path, folders } => remove_file(path, folders).map(one),
            Self::RestoreFile { path, backup } => restore_file(path, backup).map(one),
            Self::RemoveDirectory { path } => {
                let content = directories::content(path.as_str());
                let condition = if content.mode.is_some() {
                    "marked"
                } else {
                    "any"
                };
                remove_directory(path, condition, content).map(one)
            }
            // Earlier versions created no markers.
            Self::RemoveTree { path } => {
                remove_directory(path, "any", directories::content(path.as_str())).map(one)
            }
            Self::Run { script, arguments } => {
                let known = undo::find(script)
                    .ok_or_else(|| Refusal::UnknownScript(format!("{script:?}")))?;
                run(*known, arguments.clone()).map(one)
            }
            Self::Script {
                script, arguments, ..
            } => {
                let digest = Digest::of(script.as_bytes()).hex();
                let known = earlier::replacement(&digest, arguments).ok_or_else(|| {
                    Refusal::UnknownScript(format!("a text with the SHA-256 {digest}"))
                })?;
                let runs = known.into_iter();
                runs.map(|(script, arguments)| run(script, arguments))
                    .collect()
            }
        }
    }
}

fn one(revert: Revert) -> Vec<Revert> {
    vec![revert]
}

fn remove_file(path: &HostPath, folders: &[HostPath]) -> Result<Revert, Refusal> {
    if !Parameter::File.accepts(path.as_str()) {
        return Err(Refusal::Protected(path.clone()));
    }
    let is_above = |folder: &&HostPath| {
        let rest = path.as_str().strip_prefix(folder.as_str());
        !rest.is_some_and(|rest| rest.starts_with('/'))
    };
    if let Some(folder) = folders.iter().find(is_above) {
        let (folder, path) = (folder.clone(), path.clone());
        return Err(Refusal::NotADirectoryOf { folder, path });
    }
    let folders = folders.iter().map(ToString::to_string);
    Ok(Revert {
        title: format!("Remove {path}"),
        script: scripts::FILE_REMOVE,
        arguments: std::iter::once(path.to_string()).chain(folders).collect(),
    })
}

fn restore_file(path: &HostPath, backup: &HostPath) -> Result<Revert, Refusal> {
    if !Parameter::File.accepts(path.as_str()) {
        return Err(Refusal::Protected(path.clone()));
    }
    let name = backup.as_str().strip_prefix(BACKUP);
    if name.is_none_or(|name| name.contains('/')) {
        return Err(Refusal::NotACopy(backup.clone()));
    }
    Ok(Revert {
        title: format!("Restore {path}"),
        script: scripts::FILE_RESTORE,
        arguments: vec![path.to_string(), backup.to_string()],
    })
}

fn remove_directory(path: &HostPath, condition: &str, content: Content) -> Result<Revert, Refusal> {
    if !Parameter::Directory.accepts(path.as_str()) {
        return Err(Refusal::Protected(path.clone()));
    }
    let patterns = content.patterns.iter().map(|pattern| (*pattern).to_owned());
    let arguments = [path.to_string(), condition.to_owned()].into_iter();
    Ok(Revert {
        title: format!("Remove {path} with its content"),
        script: scripts::DIRECTORY_REMOVE,
        arguments: arguments.chain(patterns).collect(),
    })
}

fn run(script: UndoScript, arguments: Vec<String>) -> Result<Revert, Refusal> {
    if !script.accepts(&arguments) {
        let script = script.script.name;
        return Err(Refusal::Arguments { script, arguments });
    }
    Ok(Revert {
        title: (script.title)(&arguments),
        script: script.script,
        arguments,
    })
}

impl Revert {
    /// Returns what the script does, for the user.
    pub fn title(&self) -> &str {
        &self.title
    }

    #[cfg(test)]
    pub(super) fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// Returns whether another record reverts the same change.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.script == other.script && self.arguments == other.arguments
    }

    /// Returns whether the change can be reverted only after others: directories above those of several steps are empty after
    /// the last of them. So each record of it counts.
    pub fn needs_others(&self) -> bool {
        self.script == scripts::PARENTS_REMOVE
    }

    /// Reverts the change. Returns a sentence for everything that stays on the host.
    ///
    /// # Errors
    /// The command fails, or the connection to the host breaks.
    pub async fn run(&self, host: &dyn Host) -> Result<Vec<String>, StepError> {
        let command = Command::from_script(self.script, &self.arguments);
        let command = command.describe(self.title.clone()).limit(LIMIT);
        let output = host.run(command).await?;
        let output = StepError::unless_done(&self.title, output)?;
        Ok(output.text().lines().filter_map(kept).collect())
    }
}

/// Returns a sentence for a line `kept REASON PATH` of a script.
pub(crate) fn kept(line: &str) -> Option<String> {
    let (reason, path) = line.strip_prefix("kept ")?.split_once(' ')?;
    Some(match reason {
        "unknown" => format!("{path} stays: no program of the cluster creates it"),
        "unmarked" => {
            format!("{path} stays: kubexm did not create it, or its file .kubexm-owner is missing")
        }
        "mounted" => {
            format!("{path} stays: a file system is mounted there and cannot be unmounted")
        }
        "protected" => format!("{path} stays: it is a path of the operating system"),
        "used" => format!("the kernel module {path} stays loaded: something uses it"),
        "link" => format!("{path} stays: it is a link"),
        _ => format!("{path} stays: it cannot be deleted"),
    })
}

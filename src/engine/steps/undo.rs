//! Taking back: what receipts say and how it is done.

use serde::{Deserialize, Serialize};

use crate::plan::StepError;
use kubexm_host::{Command, Host};
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

const REMOVE_FILE: &str = r#"
rm -f "$1" "$(dirname "$1")/.$(basename "$1")".kubexm-*
shift
for folder in "$@"; do rmdir "$folder" 2>/dev/null || :; done
"#;
/// What stands there meanwhile is replaced, not written through: it may be a link.
const RESTORE_FILE: &str = r#"
[ -e "$2" ] || [ -L "$2" ] || exit 0
folder=$(dirname "$1")
mkdir -p "$folder"
rm -f "$folder/.$(basename "$1")".kubexm-*
new=$folder/.$(basename "$1").kubexm-old
cp -a "$2" "$new"
mv -fT "$new" "$1"
"#;
const REMOVE_TREE: &str = r#"
# Nothing below may be another file system: that would be somebody else's data.
awk -v root="$1/" 'index($2, root) == 1 { print $2 }' /proc/mounts | sort -r | while read -r mount; do
  umount "$mount" || umount -l "$mount"
done
rm -rf --one-file-system "$1"
"#;

impl Undo {
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
                Command::script(
                    REMOVE_FILE,
                    std::iter::once(path.to_string()).chain(folders),
                )
            }
            Self::RestoreFile { path, backup } => {
                Command::script(RESTORE_FILE, [path.to_string(), backup.to_string()])
            }
            Self::RemoveTree { path } => Command::script(REMOVE_TREE, [path.to_string()]),
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

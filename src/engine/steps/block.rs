//! A block of lines in a file that belongs to somebody else.

use async_trait::async_trait;

use super::{Undo, must};
use crate::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_host::{Command, Host};
use kubexm_types::HostPath;

/// Keeps lines between two marks; what stands outside of them stays as it is.
pub struct ManagedBlock {
    /// The file.
    pub path: HostPath,
    /// The lines. No secrets: they are arguments of a command.
    pub lines: Vec<String>,
}

/// Prints the block as it is.
const LOOK: &str = r#"sed -n '/^# kubexm begin$/,/^# kubexm end$/p' "$1" 2>/dev/null || :"#;
/// Prints what the way back must know: whether there is a file, and whether its last line ends.
const STATE: &str = r#"
if [ ! -e "$1" ]; then echo absent
elif [ -s "$1" ] && [ "$(tail -c 1 "$1" | wc -l)" -eq 0 ]; then echo unended
else echo ended; fi
"#;
/// The file without the block; with the block `$3` at its end where `$2` is `put`. Where `$2` is
/// `remove`, `$3` is what [`STATE`] printed. Only a block with both its marks is taken out: what
/// follows a mark that has lost its other half may be somebody else's.
const EDIT: &str = r##"
path=$(readlink -f "$1") verb=$2
newline='
'
if [ ! -e "$path" ]; then
  [ "$verb" = put ] || exit 0
  (umask 022; : >"$path")
fi
text=$(awk '
  /^# kubexm begin$/ { printf "%s", held; held = ""; inside = 1 }
  inside { held = held $0 "\n"; if ($0 == "# kubexm end") { held = ""; inside = 0 }; next }
  { print }
  END { printf "%s", held }' "$path"; echo .)
text=${text%.}
if [ "$verb" = put ]; then
  text=$text$3
elif [ "$3" = absent ] && [ -z "$text" ]; then
  rm -f "$path"
  exit 0
elif [ "$3" = unended ]; then
  text=${text%"$newline"}
fi
new=$(dirname "$path")/.$(basename "$path").kubexm-new
cp -a "$path" "$new"
printf %s "$text" >"$new"
# A file that is a mount of its own, as /etc/hosts may be, cannot be replaced, only written over.
mv -f "$new" "$path" 2>/dev/null || { cat "$new" >"$path"; rm -f "$new"; }
if command -v restorecon >/dev/null; then restorecon "$path" || :; fi
"##;

impl ManagedBlock {
    fn block(&self) -> String {
        let lines: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        format!("# kubexm begin\n{lines}# kubexm end\n")
    }
}

impl Describe for ManagedBlock {
    fn id(&self) -> String {
        format!("block {}", self.path)
    }

    fn describe(&self) -> String {
        format!("Add {} names to {}", self.lines.len(), self.path)
    }
}

impl From<ManagedBlock> for Step {
    fn from(step: ManagedBlock) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for ManagedBlock {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let look = Command::script(LOOK, [self.path.to_string()]);
        let found = must(host, &format!("look at {}", self.path), look)
            .await?
            .text();
        Ok(match found {
            found if found == self.block() => Check::Satisfied,
            found if found.is_empty() => Check::Needed("has no such lines".to_owned()),
            _ => Check::Needed("has other lines".to_owned()),
        })
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let look = Command::script(STATE, [self.path.to_string()]);
        let state = must(context.host, &format!("look at {}", self.path), look)
            .await?
            .text();
        let undo = Undo::Script {
            title: format!("Take kubexm's names out of {}", self.path),
            script: EDIT.to_owned(),
            arguments: vec![
                self.path.to_string(),
                "remove".to_owned(),
                state.trim().to_owned(),
            ],
        };
        context.undo.record(&self.id(), undo.to_value()?).await?;
        // As an argument the block is there whole or not at all, whatever becomes of the connection.
        let command = Command::script(EDIT, [self.path.as_str(), "put", &self.block()]);
        must(context.host, &self.describe(), command)
            .await
            .map(|_| ())
    }
}

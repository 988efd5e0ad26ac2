//! A block of lines in a file that belongs to somebody else.

use async_trait::async_trait;

use super::{Undo, must};
use crate::host::{Command, Input};
use crate::plan::{Check, Step, StepContext, StepError};
use crate::spec::HostPath;

/// Keeps lines between two marks; what stands outside of them stays as it is.
pub struct ManagedBlock {
    /// The file.
    pub path: HostPath,
    /// The lines.
    pub lines: Vec<String>,
}

/// Prints the block as it is.
const LOOK: &str = r#"sed -n '/^# kubexm begin$/,/^# kubexm end$/p' "$1" 2>/dev/null || :"#;
/// The file without the block; with the block from standard input at its end where `$2` is `put`.
/// It is written over, not replaced: /etc/hosts may be a mount of its own.
const EDIT: &str = r#"
[ -e "$1" ] || : >"$1"
text=$(sed '/^# kubexm begin$/,/^# kubexm end$/d' "$1"; echo .)
text=${text%.}
if [ "$2" = put ]; then block=$(cat; echo .); text=$text${block%.}; fi
printf %s "$text" >"$1"
"#;

impl ManagedBlock {
    fn block(&self) -> String {
        let lines: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        format!("# kubexm begin\n{lines}# kubexm end\n")
    }
}

#[async_trait]
impl Step for ManagedBlock {
    fn id(&self) -> String {
        format!("block {}", self.path)
    }

    fn describe(&self) -> String {
        format!("Add {} names to {}", self.lines.len(), self.path)
    }

    async fn check(&self, context: &StepContext<'_>) -> Result<Check, StepError> {
        let look = Command::script(LOOK, [self.path.to_string()]);
        let found = must(context, &format!("look at {}", self.path), look)
            .await?
            .text();
        Ok(match found {
            found if found == self.block() => Check::Satisfied,
            found if found.is_empty() => Check::Needed("has no such lines".to_owned()),
            _ => Check::Needed("has other lines".to_owned()),
        })
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let undo = Undo::Script {
            title: format!("Take kubexm's names out of {}", self.path),
            script: EDIT.to_owned(),
            arguments: vec![self.path.to_string(), "remove".to_owned()],
        };
        context.undo.record(&self.id(), undo.to_value()?).await?;
        let command = Command::script(EDIT, [self.path.as_str(), "put"]);
        let command = command.input(Input::Bytes(self.block().into_bytes()));
        must(context, &self.describe(), command).await.map(|_| ())
    }
}

//! A block of lines in a file that does not belong to kubexm.

use async_trait::async_trait;

use super::{Undo, run_command};
use crate::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_host::{Command, Host};
use kubexm_scripts::steps as scripts;
use kubexm_scripts::undo::BLOCK_REMOVE;
use kubexm_types::HostPath;

/// Keeps lines between the comments `# kubexm begin` and `# kubexm end`. Other lines do not change.
pub struct ManagedBlock {
    pub path: HostPath,
    /// The lines. They must not be secret, because they are arguments of a command.
    pub lines: Vec<String>,
}

/// Prints the block.
const LOOK: &str = r#"sed -n '/^# kubexm begin$/,/^# kubexm end$/p' "$1" 2>/dev/null || :"#;

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
        let found = run_command(host, &format!("read {}", self.path), look)
            .await?
            .text();
        Ok(match found {
            found if found == self.block() => Check::Satisfied,
            found if found.is_empty() => Check::needed("does not have the lines"),
            _ => Check::needed("has other lines"),
        })
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let look = Command::from_script(scripts::BLOCK_STATE, [self.path.to_string()]);
        let state = run_command(context.host, &format!("read {}", self.path), look)
            .await?
            .text();
        let undo = Undo::run(BLOCK_REMOVE, [self.path.as_str(), "remove", state.trim()]);
        context.undo.record(&self.id(), undo.to_value()?).await?;
        // When the connection breaks, an argument arrives completely or not at all.
        let command = Command::from_script(
            scripts::BLOCK_EDIT,
            [self.path.as_str(), "put", &self.block()],
        );
        run_command(context.host, &self.describe(), command)
            .await
            .map(|_| ())
    }
}

//! Writes a file that a command reads when it initializes a node.

use async_trait::async_trait;

use super::{WriteFile, check_marker, run_check};
use crate::plan::{Check, Describe, Ensure, PlannedFile, Step, StepContext, StepError};
use kubexm_host::Host;
use kubexm_types::Message;

/// A file that a [`RunToCompletion`](super::RunToCompletion) command reads. The command runs once, so a
/// later change of the file has no effect on the host. The step then keeps the file that was read, and every run reports
/// the difference.
pub struct ConfigReadAtInit {
    /// The file.
    pub file: WriteFile,
    /// The name of the command's marker file.
    pub marker: String,
    /// What the user can do, as a sentence.
    pub advice: String,
}

impl Describe for ConfigReadAtInit {
    fn id(&self) -> String {
        self.file.id()
    }

    fn describe(&self) -> String {
        self.file.describe()
    }

    fn files(&self) -> Vec<PlannedFile> {
        self.file.files()
    }
}

impl From<ConfigReadAtInit> for Step {
    fn from(step: ConfigReadAtInit) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for ConfigReadAtInit {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let check = self.file.check(host).await?;
        let Check::Needed { reason, .. } = &check else {
            return Ok(check);
        };
        let action = format!("check whether {} was read", self.file.path);
        let read = run_check(host, action, check_marker(&self.marker)).await?;
        Ok(match read {
            Check::Satisfied => Check::Reported(Message::new(format!(
                "{} is not applied, because it is read only when the node is created: {}. {}",
                self.file.path,
                reason.trim(),
                self.advice
            ))),
            _ => check,
        })
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        self.file.apply(context).await
    }
}

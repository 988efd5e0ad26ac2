//! Write a file for a command that runs once.

use async_trait::async_trait;

use super::{WriteFile, ask, look_for_mark};
use crate::plan::{Check, Describe, Ensure, PlannedFile, Step, StepContext, StepError};
use kubexm_host::Host;

/// A file that a command reads which runs only once ([`RunOnce`](super::RunOnce)): written later, it
/// changes nothing, and that is told.
pub struct ReadOnce {
    /// The file.
    pub file: WriteFile,
    /// Name of the command's mark.
    pub by: String,
    /// What the operator can do, as a sentence of its own.
    pub advice: String,
}

impl Describe for ReadOnce {
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

impl From<ReadOnce> for Step {
    fn from(step: ReadOnce) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for ReadOnce {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        self.file.check(host).await
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let action = format!("look whether {} was read", self.file.path);
        let read = ask(context.host, action, look_for_mark(&self.by)).await?;
        self.file.apply(context).await?;
        if read == Check::Satisfied {
            context.events.warn(format!(
                "{}: {} has changed, and nothing reads it any more: this host stays as it is. {}",
                context.host.name(),
                self.file.path,
                self.advice
            ));
        }
        Ok(())
    }
}

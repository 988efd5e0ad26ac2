//! Ask a host for a value that other tasks need.

use async_trait::async_trait;

use super::input::{LateInput, script_with_input};
use super::must;
use crate::plan::{Check, RenderedFile, Slot, Step, StepContext, StepError};

/// Turns what a script printed into a value.
pub type Parse<T> = Box<dyn Fn(&str) -> Result<T, String> + Send + Sync>;

/// Runs a script in every run and gives what it printed, parsed, to a slot. It counts as no change:
/// what it makes is short-lived.
pub struct Produce<T> {
    /// What it does, in words.
    pub title: String,
    /// POSIX shell.
    pub script: String,
    /// What it reads; may be secret.
    pub input: Option<LateInput>,
    /// Reads its output; the output itself is never shown.
    pub parse: Parse<T>,
    /// Where the value goes.
    pub slot: Slot<T>,
    /// Files that are on the host while the script runs, without secrets, for `render`.
    pub files: Vec<RenderedFile>,
}

#[async_trait]
impl<T: Send + Sync + 'static> Step for Produce<T> {
    fn id(&self) -> String {
        format!("produce {}", self.slot.name())
    }

    fn describe(&self) -> String {
        self.title.clone()
    }

    fn files(&self) -> Vec<RenderedFile> {
        self.files.clone()
    }

    async fn check(&self, context: &StepContext<'_>) -> Result<Check, StepError> {
        let command = script_with_input(&self.script, Vec::new(), self.input.as_ref())?;
        let output = must(context, &self.title, command).await?;
        let value = (self.parse)(&output.text())
            .map_err(|reason| StepError::Other(format!("{}: {reason}", self.title)))?;
        self.slot.give(value);
        Ok(Check::Satisfied)
    }

    async fn apply(&self, _: &StepContext<'_>) -> Result<(), StepError> {
        Ok(())
    }
}

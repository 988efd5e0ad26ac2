//! Runs a script on a host for a value that other tasks need.

use async_trait::async_trait;

use super::input::{LateInput, script_with_input};
use super::must;
use crate::plan::{Action, Describe, PlannedFile, Slot, Step, StepError};
use kubexm_host::Host;
use kubexm_scripts::Script;

/// Turns what a script printed into a value.
pub type Parse<T> = Box<dyn Fn(&str) -> Result<T, String> + Send + Sync>;

/// Runs a script once, parses what it printed, and puts the value into a slot.
pub struct Produce<T> {
    /// What the script does, for the operator.
    pub title: String,
    /// The script.
    pub script: Script,
    /// The script's arguments.
    pub arguments: Vec<String>,
    /// The script's standard input; may be secret.
    pub input: Option<LateInput>,
    /// Parses the script's standard output. No message contains the output itself.
    pub parse: Parse<T>,
    /// Receives the value.
    pub slot: Slot<T>,
    /// Files that are on the host while the script runs, without secrets, for `render`.
    pub files: Vec<PlannedFile>,
}

impl<T: Send + Sync + 'static> Describe for Produce<T> {
    fn id(&self) -> String {
        format!("produce {}", self.slot.name())
    }

    fn describe(&self) -> String {
        self.title.clone()
    }

    fn files(&self) -> Vec<PlannedFile> {
        self.files.clone()
    }
}

impl<T: Send + Sync + 'static> From<Produce<T>> for Step {
    fn from(step: Produce<T>) -> Self {
        Self::Action(Box::new(step))
    }
}

#[async_trait]
impl<T: Send + Sync + 'static> Action for Produce<T> {
    fn gives(&self) -> Vec<&'static str> {
        vec![self.slot.name()]
    }

    async fn run(&self, host: &dyn Host) -> Result<(), StepError> {
        let command = script_with_input(self.script, &self.arguments, self.input.as_ref())?;
        let output = must(host, &self.title, command).await?;
        let value = (self.parse)(&output.text())
            .map_err(|reason| StepError::Other(format!("{}: {reason}", self.title)))?;
        self.slot.give(value);
        Ok(())
    }
}

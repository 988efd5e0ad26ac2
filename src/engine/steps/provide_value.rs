//! Runs a script on a host that provides a value for other tasks.

use async_trait::async_trait;

use super::input::{DeferredInput, script_with_input};
use super::run_command;
use crate::plan::{Action, Describe, PlannedFile, Step, StepError, TaskValue};
use kubexm_host::{Host, Limit};
use kubexm_scripts::Script;
use kubexm_types::Message;

/// Parses the output of a script.
pub type Parse<T> = Box<dyn Fn(&str) -> Result<T, Message> + Send + Sync>;

/// Runs a script once, parses its output, and sets a value.
pub struct ProvideValue<T> {
    /// What the script does, for the user.
    pub title: String,
    pub script: Script,
    pub arguments: Vec<String>,
    /// The script's standard input. It may be secret.
    pub input: Option<DeferredInput>,
    /// Parses the script's standard output. An error must not contain the output, which may be secret.
    pub parse: Parse<T>,
    pub value: TaskValue<T>,
    /// Whether the script changes nothing, and the value is not secret. A comparison of the host with the plan then runs it.
    pub only_reads: bool,
    /// Files that exist on the host while the script runs, without secrets, for `kubexm render`.
    pub files: Vec<PlannedFile>,
}

impl<T: Send + Sync + 'static> Describe for ProvideValue<T> {
    fn id(&self) -> String {
        format!("provide {}", self.value.name())
    }

    fn describe(&self) -> String {
        self.title.clone()
    }

    fn files(&self) -> Vec<PlannedFile> {
        self.files.clone()
    }
}

impl<T: Send + Sync + 'static> From<ProvideValue<T>> for Step {
    fn from(step: ProvideValue<T>) -> Self {
        Self::Action(Box::new(step))
    }
}

#[async_trait]
impl<T: Send + Sync + 'static> Action for ProvideValue<T> {
    fn provides(&self) -> Vec<&'static str> {
        vec![self.value.name()]
    }

    fn only_reads(&self) -> bool {
        self.only_reads
    }

    async fn run(&self, host: &dyn Host) -> Result<(), StepError> {
        let command = script_with_input(self.script, &self.arguments, self.input.as_ref())?;
        let command = command.secret_output().limit(Limit::CHANGE);
        let output = run_command(host, &self.title, command).await?;
        let value = (self.parse)(&output.text())
            .map_err(|reason| StepError::Other(reason.within(&self.title)))?;
        self.value.set(value);
        Ok(())
    }
}

//! Runs a script if a check says that it is needed.

use async_trait::async_trait;

use super::input::{LateInput, script_with_input};
use super::{Undo, ask, must};
use crate::plan::{Check, Describe, Ensure, PlannedFile, Step, StepContext, StepError};
use kubexm_host::{Command, Host};
use kubexm_scripts::Script;

/// A change that a script makes.
pub struct RunScript {
    /// Stable name.
    pub id: String,
    /// What it does, for people.
    pub title: String,
    /// Ends with 0 if the host is in the desired state; else prints why it is not.
    pub check: Script,
    /// Produces that state.
    pub apply: Script,
    /// `$1`, `$2`… of both.
    pub arguments: Vec<String>,
    /// What `apply` reads.
    pub input: Option<LateInput>,
    /// How a reset undoes it.
    pub undo: Vec<Undo>,
    /// Files that it puts on the host, for `render`.
    pub files: Vec<PlannedFile>,
}

impl RunScript {
    /// A script without arguments, input and undo.
    pub fn new(
        id: &str,
        title: impl Into<String>,
        check: impl Into<Script>,
        apply: impl Into<Script>,
    ) -> Self {
        Self {
            id: id.to_owned(),
            title: title.into(),
            check: check.into(),
            apply: apply.into(),
            arguments: Vec::new(),
            input: None,
            undo: Vec::new(),
            files: Vec::new(),
        }
    }

    /// Sets the arguments.
    #[must_use]
    pub fn arguments<S: Into<String>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments = arguments.into_iter().map(Into::into).collect();
        self
    }

    /// Adds an undo record.
    #[must_use]
    pub fn undo(mut self, undo: Undo) -> Self {
        self.undo.push(undo);
        self
    }

    /// Adds an undo script with the same arguments.
    #[must_use]
    pub fn undo_script(self, title: &str, script: impl Into<Script>) -> Self {
        let undo = Undo::script(title, script, self.arguments.clone());
        self.undo(undo)
    }

    /// Feeds standard input.
    #[must_use]
    pub fn input(mut self, input: LateInput) -> Self {
        self.input = Some(input);
        self
    }
}

impl Describe for RunScript {
    fn id(&self) -> String {
        self.id.clone()
    }

    fn describe(&self) -> String {
        self.title.clone()
    }

    fn files(&self) -> Vec<PlannedFile> {
        self.files.clone()
    }
}

impl From<RunScript> for Step {
    fn from(step: RunScript) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for RunScript {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let command = Command::from_script(self.check, &self.arguments);
        ask(host, format!("check: {}", self.title), command).await
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        for undo in &self.undo {
            context.undo.record(&self.id, undo.to_value()?).await?;
        }
        let command = script_with_input(self.apply, &self.arguments, self.input.as_ref())?;
        must(context.host, &self.title, command).await.map(|_| ())
    }
}

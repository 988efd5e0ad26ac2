//! Runs a script if its check says that it is needed.

use std::sync::Arc;

use async_trait::async_trait;

use super::input::{DeferredArguments, DeferredInput, script_with_input};
use super::{Undo, run_check};
use crate::plan::{Check, Describe, Ensure, PlannedFile, Step, StepContext, StepError};
use kubexm_host::{Command, Host, Limit};
use kubexm_scripts::Script;

/// Returns a text without secrets.
pub type Hiding = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// A change that a script makes.
pub struct RunScript {
    /// A name that is stable and unique within the host.
    pub id: String,
    /// What the script does, for the user.
    pub title: String,
    /// Exits with 0 if the host is in the desired state, and otherwise prints the reason.
    pub check: Script,
    /// Produces that state.
    pub apply: Script,
    /// The arguments of `check` and `apply`.
    pub arguments: Vec<String>,
    /// Arguments after these, which are known only while the plan runs.
    pub more_arguments: Option<DeferredArguments>,
    /// The standard input of `apply`.
    pub input: Option<DeferredInput>,
    /// How long `apply` may run.
    pub limit: Limit,
    /// How a reset reverts the change.
    pub undo: Vec<Undo>,
    /// The id of the step whose place in a reset the undo records have; `None` for this step.
    pub undo_place: Option<String>,
    /// Files that the script writes on the host, for `kubexm render`.
    pub files: Vec<PlannedFile>,
    /// Hides secrets in what `apply` prints. The output is then not in the log file of the host.
    pub hiding: Option<Hiding>,
}

impl RunScript {
    /// Creates a step without arguments, input and undo records.
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
            more_arguments: None,
            input: None,
            limit: Limit::CHANGE,
            undo: Vec::new(),
            undo_place: None,
            files: Vec::new(),
            hiding: None,
        }
    }

    /// Sets the arguments.
    #[must_use]
    pub fn arguments<S: Into<String>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments = arguments.into_iter().map(Into::into).collect();
        self
    }

    /// Adds arguments that are known only while the plan runs.
    #[must_use]
    pub fn more_arguments(mut self, arguments: DeferredArguments) -> Self {
        self.more_arguments = Some(arguments);
        self
    }

    /// Adds an undo record.
    #[must_use]
    pub fn undo(mut self, undo: Undo) -> Self {
        self.undo.push(undo);
        self
    }

    /// Lets a reset revert the change together with that of another step. A host may have the receipt of an earlier
    /// version, without this step: the undo records of a new step would be the first ones to be reverted.
    #[must_use]
    pub fn undo_with(mut self, step: &str) -> Self {
        self.undo_place = Some(step.to_owned());
        self
    }

    /// Sets how long `apply` may run. The default is [`Limit::CHANGE`].
    #[must_use]
    pub fn limit(mut self, limit: Limit) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the standard input of `apply`.
    #[must_use]
    pub fn input(mut self, input: DeferredInput) -> Self {
        self.input = Some(input);
        self
    }

    /// Hides secrets in what `apply` prints.
    #[must_use]
    pub fn hiding(mut self, hiding: Hiding) -> Self {
        self.hiding = Some(hiding);
        self
    }

    fn all_arguments(&self) -> Result<Vec<String>, StepError> {
        let more = self.more_arguments.as_ref().map(|more| more());
        let mut all = self.arguments.clone();
        all.extend(more.transpose()?.unwrap_or_default());
        Ok(all)
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
        let command = Command::from_script(self.check, self.all_arguments()?);
        run_check(host, format!("check: {}", self.title), command).await
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let place = self.undo_place.as_ref().unwrap_or(&self.id);
        for undo in &self.undo {
            context.undo.record(place, undo.to_value()?).await?;
        }
        let command = script_with_input(self.apply, &self.all_arguments()?, self.input.as_ref())?;
        let command = command.limit(self.limit).describe(&self.title);
        let output = match &self.hiding {
            None => context.host.run(command).await?,
            Some(hiding) => {
                let mut output = context.host.run(command.secret_output()).await?;
                for stream in [&mut output.stdout, &mut output.stderr] {
                    *stream = hiding(&String::from_utf8_lossy(stream)).into_bytes();
                }
                output
            }
        };
        StepError::unless_done(&self.title, output).map(drop)
    }
}

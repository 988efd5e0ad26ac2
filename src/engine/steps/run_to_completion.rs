//! Runs a long command that continues when kubexm or the connection ends.

use std::time::Duration;

use async_trait::async_trait;

use super::input::{DeferredInput, after_input};
use super::{Undo, check_marker, run_check, run_command};
use crate::plan::{
    Check, Describe, Ensure, FileContent, PlannedFile, Step, StepContext, StepError,
};
use kubexm_host::{Host, Limit};
use kubexm_scripts::steps as scripts;
use kubexm_scripts::undo::COMMAND_END;
use kubexm_scripts::{Parameters, Script};
use kubexm_types::{HostPath, Message};

/// How long the script waits for a command of an earlier run, and for its lock.
const EARLIER_RUN: Duration = Duration::from_secs(1260);

/// A command that is neither idempotent nor quick, such as `kubeadm init`.
///
/// The command continues when the connection breaks. The next run waits for it under the same lock. It
/// finds a marker file if the command succeeded, and cleans up if the command failed.
pub struct RunToCompletion {
    /// The name of the marker file.
    pub id: String,
    /// What the command does, for the user.
    pub title: String,
    /// The command; `$INPUT` is the path of its input file.
    pub command: Script,
    /// The input file. It may be secret, so it is not an argument.
    pub input: Option<InputFile>,
    /// Removes the remains of a failed run. It must succeed before the next run.
    pub cleanup: Script,
    /// The arguments of `command` and `cleanup`.
    pub arguments: Vec<String>,
    /// What the command waits for. If it fails, other parts of the cluster may be the cause.
    pub waits_for: &'static str,
    /// How long `command` may run, and `cleanup` as well.
    pub limit: Limit,
    /// How a reset reverts the command.
    pub undo: Vec<Undo>,
}

/// A file that exists only while the command runs. Only root can read it.
pub struct InputFile {
    pub path: HostPath,
    /// The content with placeholders in place of secrets.
    pub preview: String,
    /// Produces the content when the command is about to run.
    pub content: DeferredInput,
}

impl Describe for RunToCompletion {
    fn id(&self) -> String {
        format!("once {}", self.id)
    }

    fn describe(&self) -> String {
        match &self.input {
            Some(input) => format!("{} with {}", self.title, input.path),
            None => self.title.clone(),
        }
    }

    fn files(&self) -> Vec<PlannedFile> {
        let input = self.input.iter();
        input
            .map(|input| PlannedFile {
                path: input.path.clone(),
                mode: 0o600,
                content: FileContent::Deferred(input.preview.clone()),
            })
            .collect()
    }
}

impl From<RunToCompletion> for Step {
    fn from(step: RunToCompletion) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for RunToCompletion {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let action = format!("check: {}", self.title);
        run_check(host, action, check_marker(&self.id)).await
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        // A reset reverts the last record first.
        let end = Undo::run(COMMAND_END, [""; 0]);
        for undo in self.undo.iter().chain([&end]) {
            context
                .undo
                .record(&Describe::id(self), undo.to_value()?)
                .await?;
        }
        let (input, path) = match &self.input {
            Some(file) => ((file.content)()?, file.path.to_string()),
            None => (Vec::new(), String::new()),
        };
        let verb = |script: &Script| script.verb.unwrap_or_default().to_owned();
        let parameters = scripts::RunToCompletion {
            id: self.id.clone(),
            input: path,
            command: self.command.text.to_owned(),
            command_verb: verb(&self.command),
            cleanup: self.cleanup.text.to_owned(),
            cleanup_verb: verb(&self.cleanup),
            limit: self.limit.seconds().to_string(),
        };
        let arguments = parameters.and(&self.arguments);
        let command = after_input(scripts::RUN_TO_COMPLETION, arguments, input);
        let limit = self.limit.after(self.limit.time()).after(EARLIER_RUN);
        let command = command.limit(limit).continues_when_cancelled();
        match run_command(context.host, &self.title, command).await {
            Ok(_) => Ok(()),
            Err(failed @ StepError::Command { .. }) => {
                Err(StepError::Awaited(Message::from(&failed)))
            }
            Err(error) => Err(error),
        }
    }

    fn waits_for(&self) -> Option<&str> {
        Some(self.waits_for)
    }
}

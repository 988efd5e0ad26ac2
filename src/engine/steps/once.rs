//! Runs a long command once, also when kubexm or the connection ends meanwhile.

use async_trait::async_trait;

use super::input::{LateInput, after_input};
use super::{Undo, ask, look_for_mark, must};
use crate::plan::{
    Check, Describe, Ensure, FileContent, PlannedFile, Step, StepContext, StepError,
};
use kubexm_host::Host;
use kubexm_scripts::Script;
use kubexm_scripts::steps as scripts;
use kubexm_types::HostPath;

/// A command that is neither idempotent nor quick, such as `kubeadm init`.
///
/// The command goes on when the connection breaks. The next run waits for it under the same lock,
/// finds its mark if it succeeded, and cleans up after it if it failed.
pub struct RunOnce {
    /// Name of its mark.
    pub id: String,
    /// What it does, for people.
    pub title: String,
    /// The command; `$INPUT` is the path of its input file.
    pub command: Script,
    /// What it reads; not an argument, since it may be secret.
    pub input: Option<InputFile>,
    /// Removes what a failed try left; must succeed before the next one.
    pub cleanup: Script,
    /// Arguments of both.
    pub arguments: Vec<String>,
    /// How a reset undoes it.
    pub undo: Vec<Undo>,
}

/// A file that is on the host only while the command runs, and only for root.
pub struct InputFile {
    /// Where.
    pub path: HostPath,
    /// Its text with words in angle brackets in place of secrets.
    pub preview: String,
    /// Makes its bytes when the command is about to run.
    pub content: LateInput,
}

impl Describe for RunOnce {
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
                content: FileContent::Late(input.preview.clone()),
            })
            .collect()
    }
}

impl From<RunOnce> for Step {
    fn from(step: RunOnce) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for RunOnce {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let action = format!("check: {}", self.title);
        ask(host, action, look_for_mark(&self.id)).await
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        // A reset reverts the last record first.
        let title = format!("End what is left of: {}", self.title);
        let end = Undo::script(title, scripts::ONCE_END, [""; 0]);
        for undo in self.undo.iter().chain([&end]) {
            context
                .undo
                .record(&Describe::id(self), undo.to_value()?)
                .await?;
        }
        let (input, place) = match &self.input {
            Some(file) => ((file.content)()?, file.path.to_string()),
            None => (Vec::new(), String::new()),
        };
        let of_guard = [
            &*self.id,
            &place,
            self.command.text,
            self.command.verb.unwrap_or_default(),
            self.cleanup.text,
            self.cleanup.verb.unwrap_or_default(),
        ];
        let own = self.arguments.iter().map(String::as_str);
        let command = after_input(scripts::ONCE, of_guard.into_iter().chain(own), input);
        must(context.host, &self.title, command).await.map(|_| ())
    }
}

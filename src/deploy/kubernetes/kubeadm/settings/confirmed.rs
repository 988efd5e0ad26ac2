//! The end of a change: the program works, and the former files become the previous ones; or it gets them again.

use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;

use kubexm_engine::plan::{Check, Condition, Describe, Ensure, Step, StepContext, StepError, Wait};
use kubexm_engine::{Command, Host, Limit};
use kubexm_scripts::kubeadm::Settings;
use kubexm_types::Message;

use super::look::call;

/// Time between two looks at a program that got its former files again.
const PAUSE: Duration = Duration::from_secs(2);

/// A program whose change can be undone until it is confirmed.
#[async_trait]
pub(super) trait Undoable: Send + Sync {
    /// Returns the program in a sentence, such as "the kubelet".
    fn program(&self) -> &'static str;

    /// Returns the name for [`Settings::name`].
    fn name(&self) -> &'static str;

    /// Returns what the program is after a change, such as "ready".
    fn goal(&self) -> &'static str;

    /// Returns `former` and `path` of [`Settings`].
    fn places(&self) -> Settings;

    /// Returns whether this run changes files, or goes on with a change.
    fn is_pending(&self) -> bool;

    /// How long the program may take.
    fn limit(&self) -> Duration;

    /// Lets the program read its former files.
    async fn begin_again(&self, host: &dyn Host) -> Result<(), StepError>;

    /// Returns whether the program works with its new files.
    async fn condition(&self, host: &dyn Host) -> Result<Condition, StepError>;

    /// Returns whether the program works with its former files.
    async fn works_again(&self, host: &dyn Host) -> Result<bool, StepError> {
        Ok(self.condition(host).await? == Condition::Met)
    }
}

/// Gives a program its former files again, and waits for it. Returns the error for the user. An undo that is interrupted
/// leaves the former files, and the next run begins with them.
async fn undo(change: &dyn Undoable, host: &dyn Host) -> Result<Message, StepError> {
    let (program, goal) = (change.program(), change.goal());
    let title = format!("Give {program} its former settings");
    let of_name = Settings {
        name: change.name().to_owned(),
        ..Settings::default()
    };
    let logs = call(host, &title, "logs", Limit::DEFAULT, of_name).await?;
    let restored = call(host, &title, "restore", Limit::DEFAULT, change.places()).await?;
    StepError::unless_done(&title, restored)?;
    change.begin_again(host).await?;
    let began = tokio::time::Instant::now();
    let mut works = change.works_again(host).await?;
    while !works && began.elapsed() < change.limit() {
        tokio::time::sleep(PAUSE).await;
        works = change.works_again(host).await?;
    }
    let mut text = format!(
        "{program} does not become {goal} with its new settings, so it has its former ones again\n{}",
        logs.shown()
    );
    if works {
        let dropped = call(host, &title, "drop", Limit::DEFAULT, change.places()).await?;
        StepError::unless_done(&title, dropped)?;
    } else {
        let more = format!("\n{program} does not become {goal} with its former settings either");
        text = text.trim_end().to_owned() + &more;
    }
    let hint = format!(
        "correct the settings of {program} in the cluster file, then run the same command again"
    );
    Ok(Message::quoting(text.trim_end()).hint(hint))
}

/// Returns why a run goes on with a change.
pub(super) fn interrupted(change: &dyn Undoable) -> String {
    format!("a change of {} was interrupted", change.program())
}

/// Waits until the program works with its new files. If it does not, it gets its former ones again.
pub(super) struct Works<T>(pub(super) Arc<T>);

impl<T: Undoable> Describe for Works<T> {
    fn id(&self) -> String {
        format!("wait {} settings", self.0.name())
    }

    fn describe(&self) -> String {
        let (program, goal) = (self.0.program(), self.0.goal());
        format!("Wait until {program} is {goal} with its settings")
    }
}

#[async_trait]
impl<T: Undoable> Wait for Works<T> {
    fn limit(&self) -> Duration {
        self.0.limit()
    }

    async fn poll(&self, host: &dyn Host) -> Result<Condition, StepError> {
        if self.0.is_pending() {
            self.0.condition(host).await
        } else {
            Ok(Condition::Met)
        }
    }

    async fn undo(&self, host: &dyn Host) -> Result<Option<Message>, StepError> {
        undo(&*self.0, host).await.map(Some)
    }
}

impl<T: Undoable + 'static> From<Works<T>> for Step {
    fn from(step: Works<T>) -> Self {
        Self::Wait(Box::new(step))
    }
}

/// Keeps the former files of a change after the program works.
pub(super) struct Confirmed<T>(pub(super) Arc<T>);

impl<T: Undoable> Describe for Confirmed<T> {
    fn id(&self) -> String {
        format!("{} settings confirmed", self.0.name())
    }

    fn describe(&self) -> String {
        format!(
            "Keep the former settings of {} as the previous ones",
            self.0.program()
        )
    }
}

#[async_trait]
impl<T: Undoable> Ensure for Confirmed<T> {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        if !self.0.is_pending() {
            return Ok(Check::Satisfied);
        }
        let former = self.0.places().former;
        let exists = host.run(Command::new("test").arg("-e").arg(former)).await?;
        Ok(if exists.success() {
            Check::needed(interrupted(&*self.0))
        } else {
            Check::Satisfied
        })
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let title = self.describe();
        let places = self.0.places();
        let kept = call(context.host, &title, "keep", Limit::DEFAULT, places).await?;
        StepError::unless_done(&title, kept)?;
        Ok(())
    }
}

impl<T: Undoable + 'static> From<Confirmed<T>> for Step {
    fn from(step: Confirmed<T>) -> Self {
        Self::Ensure(Box::new(step))
    }
}

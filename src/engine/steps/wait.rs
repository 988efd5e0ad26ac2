//! Waits for a condition on a host.

use std::time::Duration;

use async_trait::async_trait;

use crate::plan::{About, Condition, Describe, Step, StepError, Wait};
use kubexm_host::{Command, Host, HostError, Limit};
use kubexm_scripts::{Call, Script};

/// How long one poll may take.
pub const POLL: Limit = Limit::new(Duration::from_secs(60), "polls of a condition");
/// How long a diagnosis may take. It often asks the server that does not answer.
const DIAGNOSIS: Limit = Limit::new(Duration::from_secs(30), "diagnoses");

/// Maximum number of columns of a reason for one host.
pub const LONGEST_REASON: usize = 300;

/// Polls a script until it exits with 0. The script must not change anything.
pub struct WaitFor {
    /// The condition, as in "Wait until every node is Ready".
    pub title: String,
    /// Exits with 0 if the condition holds, and prints what is still missing.
    pub script: Script,
    pub arguments: Vec<String>,
    /// How long the executor polls.
    pub at_most: Duration,
    /// Prints what helps to find the cause when the limit is reached.
    pub diagnosis: Call,
    /// What the condition needs.
    pub about: About,
}

impl Describe for WaitFor {
    fn id(&self) -> String {
        format!("wait {}", self.title)
    }

    fn describe(&self) -> String {
        self.title.clone()
    }
}

impl From<WaitFor> for Step {
    fn from(step: WaitFor) -> Self {
        Self::Wait(Box::new(step))
    }
}

#[async_trait]
impl Wait for WaitFor {
    fn limit(&self) -> Duration {
        self.at_most
    }

    async fn poll(&self, host: &dyn Host) -> Result<Condition, StepError> {
        let command = Command::from_script(self.script, &self.arguments)
            .describe(self.title.clone())
            .limit(POLL);
        Ok(match host.run(command).await {
            Ok(output) if output.success() => Condition::Met,
            Ok(output) => Condition::Unmet(output.shown().to_string()),
            Err(error) => return unanswered(error),
        })
    }

    fn about(&self) -> About {
        self.about
    }

    async fn diagnose(&self, host: &dyn Host) -> Result<String, StepError> {
        diagnosis(host, &self.diagnosis).await
    }
}

/// Returns what a poll without an answer shows: the condition is unknown, and the next poll may have one.
///
/// # Errors
/// The host was lost.
pub fn unanswered(error: HostError) -> Result<Condition, StepError> {
    match error {
        HostError::TimedOut { limit, output, .. } => {
            let seconds = limit.seconds();
            let missing = format!("no answer within {seconds} seconds\n{output}");
            Ok(Condition::Unmet(missing))
        }
        error => Err(error.into()),
    }
}

/// Returns what a poll shows whose command failed: its complaint, or that the host did not answer in time.
///
/// # Errors
/// The host was lost, or the answer has another form.
pub fn failed(error: StepError) -> Result<Condition, StepError> {
    match error {
        StepError::Command { complaint, .. } => Ok(Condition::Unmet(complaint.to_string())),
        StepError::Host(error) => unanswered(error),
        error => Err(error),
    }
}

/// Runs the diagnosis of a wait, and returns what it printed.
///
/// # Errors
/// It exceeds its limit, or the host was lost.
pub async fn diagnosis(host: &dyn Host, call: &Call) -> Result<String, StepError> {
    let command = Command::from_script(call.script, &call.arguments);
    let command = command.describe("diagnosis").limit(DIAGNOSIS);
    Ok(host.run(command).await?.shown().to_string())
}

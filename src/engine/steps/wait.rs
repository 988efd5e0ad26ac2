//! Waits for a condition on a host.

use std::time::Duration;

use async_trait::async_trait;

use crate::plan::{Condition, Describe, Step, StepError, Wait};
use kubexm_host::{Command, Host};
use kubexm_scripts::{Call, Script};

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
            .timeout(Duration::from_secs(60));
        let output = host.run(command).await?;
        Ok(match output.success() {
            true => Condition::Met,
            false => Condition::Unmet(output.shown().to_string()),
        })
    }

    async fn diagnose(&self, host: &dyn Host) -> Result<String, StepError> {
        let command = Command::from_script(self.diagnosis.script, &self.diagnosis.arguments);
        let output = host.run(command.describe("diagnosis")).await?;
        Ok(output.shown().to_string())
    }
}

//! Wait until something is so.

use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::plan::{Check, Step, StepContext, StepError};
use kubexm_host::Command;

/// Polls a script until it ends with 0; changes nothing.
pub struct WaitFor {
    /// What is waited for, in words: "Wait until every node is Ready".
    pub title: String,
    /// Ends with 0 when it is so; prints what is still missing.
    pub script: String,
    /// `$1`, `$2`…
    pub arguments: Vec<String>,
    /// How long at most.
    pub at_most: Duration,
    /// Prints what helps to find out why it is not so.
    pub diagnosis: String,
}

const PAUSE: Duration = Duration::from_millis(400);

#[async_trait]
impl Step for WaitFor {
    fn id(&self) -> String {
        format!("wait {}", self.title)
    }

    fn describe(&self) -> String {
        self.title.clone()
    }

    async fn check(&self, context: &StepContext<'_>) -> Result<Check, StepError> {
        let began = Instant::now();
        loop {
            let command = Command::script(&self.script, self.arguments.clone())
                .describe(self.title.clone())
                .timeout(Duration::from_secs(60));
            let output = context.host.run(command).await?;
            if output.success() {
                return Ok(Check::Satisfied);
            }
            if began.elapsed() >= self.at_most {
                let help = Command::script(&self.diagnosis, self.arguments.clone());
                let help = context.host.run(help.describe("diagnosis")).await?;
                return Err(StepError::Other(format!(
                    "{}: not so after {} seconds: {}\n{}",
                    self.title,
                    self.at_most.as_secs(),
                    output.text().trim(),
                    help.text().trim()
                )));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn apply(&self, _: &StepContext<'_>) -> Result<(), StepError> {
        Ok(())
    }
}

//! Waits until all members of etcd vote.

use std::time::Duration;

use async_trait::async_trait;

use super::membership::step_error;
use kubexm_engine::plan::{Condition, Describe, Step, StepError, Wait};
use kubexm_engine::{Command, Host, Limit};
use kubexm_etcd::{Client, ClientError};
use kubexm_scripts::Call;

/// How long a diagnosis may take. It asks the host of a member that does not answer.
const DIAGNOSIS: Limit = Limit::new(Duration::from_secs(30), "diagnoses");

/// Waits until the member on a host answers, and every member has started and votes.
pub(crate) struct AllVote {
    /// `kubeadm` or `systemd`, which runs etcd.
    pub(crate) kind: &'static str,
    /// The number of members.
    pub(crate) count: usize,
    /// How long the executor polls.
    pub(crate) at_most: Duration,
    /// Prints what helps to find the cause when the limit is reached.
    pub(crate) diagnosis: Call,
}

impl Describe for AllVote {
    fn id(&self) -> String {
        format!("wait {}", self.describe())
    }

    fn describe(&self) -> String {
        "Wait until all members of etcd are healthy".to_owned()
    }
}

#[async_trait]
impl Wait for AllVote {
    fn limit(&self) -> Duration {
        self.at_most
    }

    async fn poll(&self, host: &dyn Host) -> Result<Condition, StepError> {
        let title = self.describe();
        // etcd answers only with a leader.
        let listed = match Client::new(host, self.kind, &title).list().await {
            Ok(listed) => listed,
            Err(ClientError::Failed { complaint, .. }) => {
                let last = complaint.as_str().lines().next_back();
                return Ok(Condition::Unmet(last.unwrap_or_default().to_owned()));
            }
            Err(error) => return Err(step_error(error)),
        };
        let voters = listed.iter();
        let voters = voters.filter(|one| !one.name.is_empty() && !one.is_learner);
        let voters = voters.count();
        Ok(if (voters, listed.len()) == (self.count, self.count) {
            Condition::Met
        } else {
            Condition::Unmet(format!("{voters} of {} members have started", self.count))
        })
    }

    async fn diagnose(&self, host: &dyn Host) -> Result<String, StepError> {
        let Call { script, arguments } = &self.diagnosis;
        let command = Command::from_script(*script, arguments);
        let command = command.describe("diagnosis").limit(DIAGNOSIS);
        let output = host.run(command).await?;
        Ok(output.shown().to_string())
    }
}

impl From<AllVote> for Step {
    fn from(step: AllVote) -> Self {
        Self::Wait(Box::new(step))
    }
}

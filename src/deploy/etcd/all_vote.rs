//! Waits until all members of etcd vote.

use std::time::Duration;

use async_trait::async_trait;

use super::membership::step_error;
use kubexm_engine::Host;
use kubexm_engine::plan::{Condition, Describe, Step, StepError, Wait};
use kubexm_engine::steps::{diagnosis, unanswered};
use kubexm_etcd::{Client, ClientError};
use kubexm_scripts::Call;

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
            Err(ClientError::Host(error)) => return unanswered(error),
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
        diagnosis(host, &self.diagnosis).await
    }
}

impl From<AllVote> for Step {
    fn from(step: AllVote) -> Self {
        Self::Wait(Box::new(step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_engine::{Command, Limit};
    use kubexm_host::{HostError, Output};
    use kubexm_types::HostName;

    /// A host whose commands do not end.
    struct Hanging(HostName);

    #[async_trait]
    impl Host for Hanging {
        fn name(&self) -> &HostName {
            &self.0
        }

        async fn run(&self, _: Command) -> Result<Output, HostError> {
            Err(HostError::TimedOut {
                host: self.0.clone(),
                command: "list".to_owned(),
                limit: Limit::new(Duration::from_secs(60), "calls of etcdctl"),
                output: "the last line".to_owned(),
            })
        }
    }

    #[tokio::test]
    async fn poll_without_an_answer_is_repeated() {
        let step = AllVote {
            kind: "kubeadm",
            count: 3,
            at_most: Duration::from_secs(600),
            diagnosis: "true".into(),
        };
        let polled = step.poll(&Hanging("node1".parse().unwrap())).await;
        let Ok(Condition::Unmet(missing)) = polled else {
            panic!("the wait ends");
        };
        assert_eq!(missing, "no answer within 60 seconds\nthe last line");
    }
}

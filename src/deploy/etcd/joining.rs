//! Steps of a member of etcd that is a systemd unit and has lost its data, or has none yet.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;

use super::membership::step_error;
use kubexm_engine::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_engine::steps::RunScript;
use kubexm_engine::{Command, Host};
use kubexm_etcd::{Client, ClientError, Listed, needed};
use kubexm_scripts::etcd::{MEMBER, Member};
use kubexm_types::Message;

const KIND: &str = "systemd";
const RESTORE: &str = "restore a backup (kubexm backup restore), or begin again with kubexm reset";
/// How long the others are asked before a learner becomes a voter.
const LIST: Duration = Duration::from_secs(20);

/// A member, and the others of its cluster.
#[derive(Clone)]
pub(super) struct Joining {
    /// The name of its host.
    pub(super) name: String,
    /// Its address for other members.
    pub(super) peer: String,
    /// The directory of its data.
    pub(super) data: String,
    /// The addresses of the other members for clients.
    pub(super) others: Vec<String>,
    /// The addresses for other members of all hosts of the cluster.
    pub(super) all: BTreeSet<String>,
}

/// Replaces a member that has lost its data. It removes the old member with this address, which must not vote without its data.
/// The new member votes after it has the data of the others. A quorum of the others must be healthy, so that this cannot stop the
/// cluster.
pub(super) struct ReplaceMember {
    pub(super) member: Joining,
    /// Whether the host has data.
    pub(super) has_data: RunScript,
}

impl Describe for ReplaceMember {
    fn id(&self) -> String {
        self.has_data.id()
    }

    fn describe(&self) -> String {
        self.has_data.describe()
    }
}

impl ReplaceMember {
    /// Returns the addresses of the others that are healthy, with commas between them, and all members.
    async fn quorum(&self, client: &Client<'_>) -> Result<(String, Vec<Listed>), StepError> {
        let Joining { others, data, .. } = &self.member;
        let lost = format!("etcd has no data in {data} of this host");
        let refused = |text: String, hint: String| {
            StepError::Other(Message::new(format!("{lost}, and {text}")).hint(hint))
        };
        if others.is_empty() {
            let text = "this is its only member".to_owned();
            return Err(refused(text, format!("restore the data, {RESTORE}")));
        }
        let mut healthy = Vec::new();
        for address in others {
            match client.asking(address).status_with_leader().await {
                Ok(status) if status.is_healthy() && !status.is_learner => {
                    healthy.push(address.as_str())
                }
                Ok(_) | Err(ClientError::Failed { .. }) => {}
                Err(error) => return Err(step_error(error)),
            }
        }
        let answering = healthy.join(",");
        let silent = || {
            let text = format!("no other member is healthy: {}", others.join(","));
            refused(text, format!("start them, {RESTORE}"))
        };
        if healthy.is_empty() {
            return Err(silent());
        }
        let listed = match client.asking(&answering).list().await {
            Ok(listed) => listed,
            Err(ClientError::Failed { .. }) => return Err(silent()),
            Err(error) => return Err(step_error(error)),
        };
        let voters = listed.iter().filter(|one| !one.is_learner).count();
        if healthy.len() < needed(voters) {
            let text = format!(
                "the others have no quorum: of {voters} members {} are healthy ({answering})",
                healthy.len()
            );
            return Err(refused(text, format!("start one more member, {RESTORE}")));
        }
        Ok((answering, listed))
    }

    /// Runs a verb of the script.
    async fn run(
        &self,
        host: &dyn Host,
        verb: &'static str,
        members: String,
    ) -> Result<(), StepError> {
        let arguments = Member {
            data: self.member.data.clone(),
            state: "existing".to_owned(),
            members,
        };
        let command = Command::from_script(MEMBER.verb(verb), arguments);
        let output = host.run(command.describe(self.describe())).await?;
        StepError::unless_done(&self.describe(), output).map(drop)
    }

    /// Returns whether a member leaves: those that have never started count for the quorum, and etcd accepts one learner at a time.
    /// A learner of a host that the cluster does not have stays one.
    fn leaves(&self, one: &Listed) -> bool {
        let is_known = one.peers.iter().any(|peer| self.member.all.contains(peer));
        one.has_peer(&self.member.peer) || one.name.is_empty() || (one.is_learner && !is_known)
    }
}

#[async_trait]
impl Ensure for ReplaceMember {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        self.has_data.check(host).await
    }

    /// A step that is interrupted adds the member again, because one that has never started leaves.
    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let (host, title) = (context.host, self.describe());
        let Joining { name, peer, .. } = &self.member;
        let client = Client::new(host, KIND, &title);
        let (answering, listed) = self.quorum(&client).await?;
        let client = client.asking(&answering);
        self.run(host, "stop", String::new()).await?;
        for member in listed.iter().filter(|one| self.leaves(one)) {
            client.remove(member).await.map_err(step_error)?;
        }
        client.add_learner(name, peer).await.map_err(step_error)?;
        let listed = client.list_within(LIST).await.map_err(step_error)?;
        let members = listed.iter().flat_map(|one| {
            let name = if one.has_peer(peer) { name } else { &one.name };
            one.peers.iter().map(move |peer| format!("{name}={peer}"))
        });
        let members: Vec<String> = members.collect();
        self.run(host, "begin", members.join(",")).await
    }
}

impl From<ReplaceMember> for Step {
    fn from(step: ReplaceMember) -> Self {
        Self::Ensure(Box::new(step))
    }
}

/// Promotes a learner to a voting member.
pub(super) struct PromoteMember {
    pub(super) member: Joining,
    /// Whether the member answers. A learner does not, so that a member that answers can vote.
    pub(super) answers: RunScript,
}

impl Describe for PromoteMember {
    fn id(&self) -> String {
        self.answers.id()
    }

    fn describe(&self) -> String {
        self.answers.describe()
    }
}

#[async_trait]
impl Ensure for PromoteMember {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        self.answers.check(host).await
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let others = self.member.others.join(",");
        if others.is_empty() {
            return Ok(());
        }
        let title = self.describe();
        let client = Client::new(context.host, KIND, &title).asking(&others);
        let listed = match client.list_within(LIST).await {
            Ok(listed) => listed,
            Err(ClientError::Failed { .. }) => {
                let text =
                    format!("no other member answers ({others}), and this one has no quorum");
                return Err(StepError::Other(Message::new(text).hint(
                    "start them; if more than half have lost their data, restore a backup (kubexm backup restore)",
                )));
            }
            Err(error) => return Err(step_error(error)),
        };
        let peer = &self.member.peer;
        let mut own = listed.iter().filter(|one| one.has_peer(peer));
        match own.find(|one| one.is_learner) {
            Some(learner) => client.promote(learner).await.map_err(step_error),
            None => Ok(()),
        }
    }
}

impl From<PromoteMember> for Step {
    fn from(step: PromoteMember) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[cfg(test)]
mod tests;

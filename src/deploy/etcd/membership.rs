//! Steps that remove members of etcd, or restart one. None of them takes its quorum from etcd.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;

use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_engine::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_engine::{Command, Host};
use kubexm_etcd::{Client, ClientError, Listed, Members, Voters, kind, peer_url};
use kubexm_scripts::etcd::RESTARTS;
use kubexm_types::Message;

/// What steps do before they change members.
const LIST: &str = "list the members of etcd";
/// How often a step looks for a quorum of the others before it fails.
const TRIES: u32 = 10;
const BETWEEN_TRIES: Duration = Duration::from_secs(3);

pub(crate) fn step_error(error: ClientError) -> StepError {
    match error {
        ClientError::Host(error) => error.into(),
        ClientError::Failed {
            what,
            status,
            complaint,
            log,
        } => StepError::Command {
            action: what,
            status,
            complaint,
            log,
        },
        error @ ClientError::Unreadable { .. } => {
            StepError::Other(Message::quoting(error.to_string()))
        }
    }
}

/// Removes members of etcd, from a host that stays and whose member answers.
pub(crate) struct RemoveMembers {
    /// `kubeadm` or `systemd`, which runs etcd.
    pub(crate) kind: &'static str,
    pub(crate) id: String,
    pub(crate) title: String,
    /// Which of all members leave.
    pub(crate) leaves: Leaves,
}

/// Returns the step that removes members of etcd without a host before these control planes join.
pub(crate) fn sweep_members(cluster: &Cluster, joining: &[&HostSpec]) -> Option<RemoveMembers> {
    Some(RemoveMembers {
        kind: kind(cluster)?,
        id: "etcd members".to_owned(),
        title: "Remove members of etcd without a host".to_owned(),
        leaves: Leaves::WithoutHost {
            joining: joining.iter().map(|host| peer_url(host)).collect(),
            all: cluster.hosts.iter().map(peer_url).collect(),
        },
    })
}

/// Which members leave etcd.
pub(crate) enum Leaves {
    /// The one of a host that leaves, with this address for other members.
    Host(String),
    /// Those without a host, before control planes join: members that have never started, those of hosts that are about to
    /// join, which have no data, and learners of hosts that the cluster does not have. etcd accepts one learner at a time. A voter
    /// of a host that the cluster does not have can be another's: it stays.
    WithoutHost {
        /// The addresses for other members of the hosts that are about to join.
        joining: BTreeSet<String>,
        /// Those of all hosts of the cluster.
        all: BTreeSet<String>,
    },
}

impl Leaves {
    fn has(&self, one: &Listed) -> bool {
        let is_in = |known: &BTreeSet<String>| one.peers.iter().any(|peer| known.contains(peer));
        match self {
            Self::Host(peer) => one.has_peer(peer),
            Self::WithoutHost { joining, all } => {
                is_in(joining) || one.name.is_empty() || (one.is_learner && !is_in(all))
            }
        }
    }

    /// Returns why the host must change.
    fn reason(&self, leaving: &[&Listed]) -> String {
        if matches!(self, Self::Host(_)) {
            return "etcd has the member".to_owned();
        }
        let ids: Vec<String> = leaving.iter().map(|one| format!("{:x}", one.id)).collect();
        format!("etcd has members without a host: {}", ids.join(" "))
    }
}

impl Describe for RemoveMembers {
    fn id(&self) -> String {
        self.id.clone()
    }

    fn describe(&self) -> String {
        self.title.clone()
    }
}

impl RemoveMembers {
    async fn members(&self, host: &dyn Host) -> Result<Members, StepError> {
        let client = Client::new(host, self.kind, LIST);
        client.members(None).await.map_err(step_error)
    }

    fn leaving<'a>(&self, members: &'a Members) -> Vec<&'a Listed> {
        let listed = members.listed.iter();
        listed.filter(|one| self.leaves.has(one)).collect()
    }
}

#[async_trait]
impl Ensure for RemoveMembers {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let members = self.members(host).await?;
        let leaving = self.leaving(&members);
        Ok(if leaving.is_empty() {
            Check::Satisfied
        } else {
            Check::needed(self.leaves.reason(&leaving))
        })
    }

    /// A leader hands over first. A step that is interrupted continues with the members that are left.
    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let members = self.members(context.host).await?;
        let leaving = self.leaving(&members);
        let remaining =
            Voters::of(&members).without(|one| leaving.iter().any(|left| left.id == one.id));
        if !leaving.is_empty() && !remaining.have_quorum() {
            let refused = format!(
                "etcd would have no quorum: of the other {} members {} are healthy, and {} must be",
                remaining.count(),
                remaining.healthy(),
                remaining.needed()
            );
            let refused = Message::new(refused).hint("start the members that do not answer");
            return Err(StepError::Other(refused));
        }
        let client = Client::new(context.host, self.kind, &self.title);
        for member in leaving {
            let status = members.status(member);
            let leads = status.is_some_and(|status| status.is_leader());
            if let Some(address) = member.clients.first().filter(|_| leads)
                && let Some(next) = remaining.that_are(true).next()
            {
                let leader = client.asking(address);
                leader.hand_over(next).await.map_err(step_error)?;
            }
            client.remove(member).await.map_err(step_error)?;
        }
        Ok(())
    }
}

impl From<RemoveMembers> for Step {
    fn from(step: RemoveMembers) -> Self {
        Self::Ensure(Box::new(step))
    }
}

/// Fails if a member that is a systemd unit is about to restart, and the others have no quorum without it.
pub(super) struct KeepQuorum {
    pub(super) unit: &'static str,
    /// The files that etcd reads when it starts.
    pub(super) files: Vec<String>,
    /// The address of the member for others.
    pub(super) peer: String,
    /// The addresses of the other members for clients, for people.
    pub(super) others: String,
}

impl KeepQuorum {
    /// Returns why the cluster would stop.
    async fn refusal(&self, host: &dyn Host) -> Result<Option<String>, StepError> {
        let arguments = std::iter::once(self.unit.to_owned()).chain(self.files.iter().cloned());
        let command = Command::from_script(RESTARTS, arguments).describe(self.describe());
        let output = host.run(command).await?;
        let output = StepError::unless_done(&self.describe(), output)?;
        if output.text().trim().is_empty() {
            return Ok(None);
        }
        let client = Client::new(host, "systemd", LIST);
        match client.members(Some(Duration::ZERO)).await {
            Ok(members) => Ok(self.without_quorum(&members)),
            // An etcd without a quorum has none to lose.
            Err(ClientError::Failed { .. }) => Ok(None),
            Err(error) => Err(step_error(error)),
        }
    }

    /// Two voters have no quorum during any restart.
    fn without_quorum(&self, members: &Members) -> Option<String> {
        let voters = Voters::of(members);
        let healthy = voters.without(|one| one.has_peer(&self.peer)).healthy();
        let stops = voters.count() > 2 && healthy < voters.needed();
        stops.then(|| {
            format!(
                "etcd restarts with changed files, and of {} members, only {healthy} of the others answer: the cluster would stop",
                voters.count()
            )
        })
    }
}

impl Describe for KeepQuorum {
    fn id(&self) -> String {
        "etcd quorum".to_owned()
    }

    fn describe(&self) -> String {
        "Check that etcd keeps its quorum while this member restarts".to_owned()
    }
}

#[async_trait]
impl Ensure for KeepQuorum {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let refusal = self.refusal(host).await?;
        Ok(refusal.map_or(Check::Satisfied, Check::needed))
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let mut tries = 1;
        while let Some(refusal) = self.refusal(context.host).await? {
            if tries == TRIES {
                let hint = format!(
                    "start the other members ({}), then run the same command again",
                    self.others
                );
                return Err(StepError::Other(Message::new(refusal).hint(hint)));
            }
            tries += 1;
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
        Ok(())
    }
}

impl From<KeepQuorum> for Step {
    fn from(step: KeepQuorum) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[cfg(test)]
mod tests;

//! The members of etcd as one of them lists them, with the status of each one that answers.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::answer::{Listed, Status, Unreadable};
use kubexm_host::{Command, Host, HostError};
use kubexm_scripts::etcd::MEMBERSHIP;
use kubexm_types::Untrusted;

/// How long the member is asked again, if the caller does not say it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The members of etcd.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members {
    /// All members.
    pub listed: Vec<Listed>,
    /// Those that answer.
    pub answered: Vec<Status>,
}

/// Why the member of a host does not list the members.
#[derive(Debug, thiserror::Error)]
pub enum Unlisted {
    /// The host was lost.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The member does not answer, or etcd has no quorum.
    #[error("{what} failed (exit status {status}):\n{complaint}{}", output_in(.log.as_ref()))]
    Failed {
        /// What was tried.
        what: &'static str,
        /// The exit status.
        status: i32,
        /// The last lines that the program printed.
        complaint: Untrusted,
        /// The log file with the whole output.
        log: Option<PathBuf>,
    },
    /// etcdctl printed something else.
    #[error("{what}: the answer {cause}")]
    Unreadable {
        /// What was tried.
        what: &'static str,
        /// What is wrong with the answer.
        cause: Unreadable,
    },
}

fn output_in(log: Option<&PathBuf>) -> String {
    log.map_or_else(String::new, |log| {
        format!("\nthe whole output is in {}", log.display())
    })
}

impl Members {
    /// Asks the member of a host, again and again for some time, which is a minute if it is not stated. `what` describes it for
    /// the user, as in "list the members of etcd".
    ///
    /// # Errors
    /// It does not answer, or etcd has no quorum.
    pub async fn read(
        host: &dyn Host,
        kind: &str,
        what: &'static str,
        at_most: Option<Duration>,
    ) -> Result<Self, Unlisted> {
        let seconds = at_most.unwrap_or(PATIENCE).as_secs().to_string();
        let arguments = [kind, seconds.as_str()];
        let command = Command::from_script(MEMBERSHIP.verb("list"), arguments).describe(what);
        let output = host.run(command).await?;
        if !output.success() {
            return Err(Unlisted::Failed {
                what,
                status: output.status,
                complaint: output.complaint(),
                log: output.log,
            });
        }
        Self::parse(&output.text()).map_err(|cause| Unlisted::Unreadable { what, cause })
    }

    /// Parses a line with the list of members, and a line with the status of each one that answers.
    ///
    /// # Errors
    /// A line is something else.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        let (list, statuses) = text.split_once('\n').unwrap_or((text, ""));
        let mut answered = Vec::new();
        // crictl adds empty lines.
        for line in statuses.lines().filter(|line| !line.trim().is_empty()) {
            answered.extend(Status::all(line.as_bytes())?);
        }
        Ok(Self {
            listed: Listed::all(list.as_bytes())?,
            answered,
        })
    }

    /// Returns the member with this address for other members.
    pub fn at(&self, peer: &str) -> Option<&Listed> {
        self.listed.iter().find(|one| one.has_peer(peer))
    }

    /// Returns what a member answered.
    pub fn status(&self, member: &Listed) -> Option<&Status> {
        self.answered.iter().find(|one| one.id == member.id)
    }

    /// Returns whether a member answers, has a leader and reports nothing but alarms.
    pub fn is_healthy(&self, member: &Listed) -> bool {
        let status = self.status(member);
        status.is_some_and(|status| status.leader.is_some() && status.errors.is_empty())
    }

    /// Returns the names of healthy voters that have none of these addresses for other members.
    pub fn healthy_besides(&self, peers: &BTreeSet<String>) -> Vec<String> {
        let others = self.listed.iter().filter(|one| {
            !one.is_learner
                && self.is_healthy(one)
                && !one.peers.iter().any(|peer| peers.contains(peer))
        });
        others.map(Listed::label).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unstarted_members_and_learners_are_known() {
        let list = r#"{"members":[{"ID":1,"name":"node1","peerURLs":["https://192.0.2.11:2380"]},{"ID":2,"peerURLs":["https://192.0.2.12:2380"]},{"ID":3,"name":"node3","isLearner":true}]}"#;
        let members = Members::parse(list).unwrap();
        assert_eq!(crate::Voters::of(&members).count(), 2);
        assert_eq!(members.listed[1].label(), "one that has never started");
        assert!(Members::parse("").is_err());
        assert!(Members::parse(&format!("{list}\nx\n")).is_err());
        assert_eq!(Members::parse(&format!("{list}\n\n")).unwrap(), members);
    }
}

//! The members of etcd as one of them lists them, with the status of each one that answers.

use std::collections::BTreeSet;

use super::answer::{Listed, Status};

/// The members of etcd.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members {
    /// All members.
    pub listed: Vec<Listed>,
    /// Those that answer.
    pub answered: Vec<Status>,
}

impl Members {
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
        self.status(member).is_some_and(Status::is_healthy)
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
        let members = Members {
            listed: Listed::all(list.as_bytes()).unwrap(),
            answered: Vec::new(),
        };
        assert_eq!(crate::Voters::of(&members).count(), 2);
        assert_eq!(members.listed[1].label(), "one that has never started");
    }
}

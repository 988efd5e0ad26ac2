//! How many members of etcd must be healthy.

use super::answer::Listed;
use super::members::Members;

/// Returns how many of so many voters must be healthy. Without a voter, one is missing.
pub const fn needed(voters: usize) -> usize {
    voters / 2 + 1
}

/// Returns why so many answering members of all cannot have a quorum; `None` if they can.
pub fn missing(answering: usize, all: usize) -> Option<String> {
    let needed = needed(all);
    (answering < needed).then(|| {
        format!(
            "etcd has no quorum: {answering} of {all} members answer, and {needed} are necessary"
        )
    })
}

/// The members that count for the majority, with whether each of them is healthy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Voters<'a>(Vec<(&'a Listed, bool)>);

impl<'a> Voters<'a> {
    /// Returns the voters of etcd.
    pub fn of(membership: &'a Members) -> Self {
        let voters = membership.listed.iter().filter(|one| !one.is_learner);
        Self(
            voters
                .map(|one| (one, membership.is_healthy(one)))
                .collect(),
        )
    }

    /// Returns how many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the healthy ones, or those that are not.
    pub fn that_are(&self, healthy: bool) -> impl Iterator<Item = &'a Listed> {
        let voters = self.0.iter().filter(move |(_, one)| *one == healthy);
        voters.map(|(voter, _)| *voter)
    }

    /// Returns how many are healthy.
    pub fn healthy(&self) -> usize {
        self.that_are(true).count()
    }

    /// Returns how many must be healthy.
    pub fn needed(&self) -> usize {
        needed(self.count())
    }

    /// Returns whether enough of them are healthy.
    pub fn have_quorum(&self) -> bool {
        self.healthy() >= self.needed()
    }

    /// Returns the voters that remain without some of them.
    #[must_use]
    pub fn without(&self, leaves: impl Fn(&Listed) -> bool) -> Self {
        let voters = self.0.iter().filter(|(voter, _)| !leaves(voter));
        Self(voters.copied().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_half_of_the_voters_are_necessary() {
        let all = [0, 1, 2, 3, 4, 5].map(needed);
        assert_eq!(all, [1, 1, 2, 2, 3, 3]);
    }
}

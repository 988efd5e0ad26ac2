//! Which member takes a snapshot.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use futures_util::future::join_all;

use super::answer::{CORRUPT, Status};
use super::snapshot::Member;
use kubexm_types::HostName;

/// The number of entries of raft by which a follower can be behind and still takes the snapshot before the leader.
///
/// Members answer at slightly different times, so that a healthy follower seems to be a few entries behind. A member that has
/// just come back applies its entries one after another, and its snapshot does not have the others.
const NEAR: u64 = 1000;

/// Returns by how many entries of raft a member is behind the highest index of its cluster.
fn lag(status: &Status, highest: &Highest) -> u64 {
    let highest = highest.get(&status.cluster);
    highest.map_or(0, |highest| highest.saturating_sub(status.applied))
}

/// Returns the place of a member among those that are asked for a snapshot; the lowest is the first.
///
/// A learner, or a member without a leader, may lack changes. So does a follower that is far behind: the leader comes before
/// it. A member that came back after a restore can have applied more changes than all others, so that their number decides
/// last.
fn rank(status: &Status, highest: &Highest) -> impl Ord + use<> {
    let place = match (status.is_leader(), lag(status, highest) > NEAR) {
        (false, false) => 0,
        (true, _) => 1,
        (false, true) => 2,
    };
    let has_no_leader = status.leader.is_none();
    (
        status.is_learner,
        has_no_leader,
        place,
        Reverse(status.applied),
    )
}

/// The highest index that a member with a leader has applied, by ID of the cluster of etcd.
type Highest = BTreeMap<u64, u64>;

fn highest<'a>(statuses: impl Iterator<Item = &'a Status>) -> Highest {
    let mut highest = Highest::new();
    for status in statuses.filter(|status| status.leader.is_some()) {
        let known = highest.entry(status.cluster).or_default();
        *known = status.applied.max(*known);
    }
    highest
}

/// Orders members for a snapshot that is taken before a change: as for a backup, then those that do not answer. The change
/// may be what ends a disagreement of members, which therefore is not an error.
pub async fn by_preference<'a>(members: Vec<Member<'a>>) -> Vec<Member<'a>> {
    let statuses = join_all(members.iter().map(Member::status)).await;
    let highest = highest(statuses.iter().filter_map(|status| status.as_ref().ok()));
    let mut ranked: Vec<_> = statuses.into_iter().zip(members).collect();
    ranked.sort_by_key(|(status, _)| {
        let rank = status.as_ref().ok().map(|status| rank(status, &highest));
        (rank.is_none(), rank)
    });
    ranked.into_iter().map(|(_, member)| member).collect()
}

/// Members that belong to one cluster of etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The ID of the cluster.
    pub cluster: u64,
    /// The hosts of the members.
    pub hosts: Vec<HostName>,
    /// Whether one of them has a leader.
    pub has_leader: bool,
}

/// Why no snapshot of the members is one of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disagreement {
    /// These members report that members have different data.
    Data(Vec<HostName>),
    /// Members are of different clusters: a host that was off during a restore can come back with the former data.
    Clusters(Vec<Part>),
    /// No member that counts for the majority answers.
    Silence,
}

/// The members that answered, in the order in which they are asked for a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    statuses: Vec<(HostName, Status)>,
}

impl Survey {
    /// Orders the members: those that are not the leader first, and among these the one with the most changes. A follower that
    /// is far behind comes after the leader. A member without a leader is the last one, and a learner is not asked: both may
    /// lack changes.
    ///
    /// # Errors
    /// See [`Disagreement`].
    pub fn new(mut statuses: Vec<(HostName, Status)>) -> Result<Self, Disagreement> {
        let corrupt = statuses
            .iter()
            .filter(|(_, status)| status.alarms.contains(CORRUPT));
        let corrupt: Vec<HostName> = corrupt.map(|(host, _)| host.clone()).collect();
        if !corrupt.is_empty() {
            return Err(Disagreement::Data(corrupt));
        }
        same_cluster(&statuses)?;
        statuses.retain(|(_, status)| !status.is_learner);
        if statuses.is_empty() {
            return Err(Disagreement::Silence);
        }
        let highest = highest(statuses.iter().map(|(_, status)| status));
        statuses.sort_by_key(|(_, status)| rank(status, &highest));
        Ok(Self { statuses })
    }

    /// Returns by how many entries of raft a member is behind, if its snapshot can lack changes for this reason.
    pub fn lag(&self, host: &HostName) -> Option<u64> {
        let highest = highest(self.statuses.iter().map(|(_, status)| status));
        Some(lag(self.status(host)?, &highest)).filter(|lag| *lag > NEAR)
    }

    /// Returns whether the members have a leader.
    pub fn has_quorum(&self) -> bool {
        let mut statuses = self.statuses.iter();
        statuses.any(|(_, status)| status.leader.is_some())
    }

    /// Returns the members in the order in which they are asked.
    pub fn order<'a>(&self, members: &'a [Member<'a>]) -> Vec<&'a Member<'a>> {
        let hosts = self.statuses.iter().map(|(host, _)| host);
        hosts
            .filter_map(|host| members.iter().find(|member| member.name == host))
            .collect()
    }

    /// Returns what the members answered, in the same order.
    pub fn statuses(&self) -> &[(HostName, Status)] {
        &self.statuses
    }

    /// Returns what the member of a host answered.
    pub fn status(&self, host: &HostName) -> Option<&Status> {
        let mut statuses = self.statuses.iter();
        statuses
            .find(|(other, _)| other == host)
            .map(|(_, status)| status)
    }
}

fn same_cluster(statuses: &[(HostName, Status)]) -> Result<(), Disagreement> {
    let mut parts: BTreeMap<u64, Part> = BTreeMap::new();
    for (host, status) in statuses {
        let part = parts.entry(status.cluster).or_insert_with(|| Part {
            cluster: status.cluster,
            hosts: Vec::new(),
            has_leader: false,
        });
        part.hosts.push(host.clone());
        part.has_leader |= status.leader.is_some();
    }
    if parts.len() < 2 {
        return Ok(());
    }
    Err(Disagreement::Clusters(parts.into_values().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(host: &str, id: u64, leader: u64, applied: u64, more: &str) -> (HostName, Status) {
        let text = format!(
            r#"[{{"Endpoint":"https://127.0.0.1:2379","Status":{{"header":{{"cluster_id":17237436991929493444,"member_id":{id},
            "revision":9,"raft_term":2}},"version":"3.6.8","dbSize":20480,"leader":{leader},"raftIndex":10,
            "raftTerm":2,"raftAppliedIndex":{applied}{more}}}}}]"#
        );
        (host.parse().unwrap(), Status::one(text.as_bytes()).unwrap())
    }

    fn order(statuses: Vec<(HostName, Status)>) -> Result<String, Disagreement> {
        let survey = Survey::new(statuses)?;
        let hosts = survey.statuses.iter().map(|(host, _)| host.as_str());
        Ok(hosts.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn snapshot_is_taken_by_the_newest_member_that_is_not_the_leader() {
        let all = || {
            vec![
                status("node1", 1, 1, 100, ""),
                status("node2", 2, 1, 98, ""),
                status("node3", 3, 1, 99, ""),
            ]
        };
        assert_eq!(order(all()).unwrap(), "node3 node2 node1");
        assert_eq!(order(all()[..1].to_vec()).unwrap(), "node1");
        let learner = status("node2", 2, 1, 100, r#","isLearner":true"#);
        assert_eq!(
            order(vec![all()[0].clone(), learner.clone()]).unwrap(),
            "node1"
        );
        assert_eq!(order(vec![learner]), Err(Disagreement::Silence));
        let without = status("node2", 2, 0, 98, r#","errors":["etcdserver: no leader"]"#);
        let survey = Survey::new(vec![without]).unwrap();
        assert!(!survey.has_quorum());
    }

    /// A host that was off during a restore onto fewer hosts has applied more changes than those of the new cluster.
    #[test]
    fn member_without_a_leader_takes_no_snapshot_before_one_with_a_leader() {
        let back = status("node3", 3, 0, 5000, "");
        let leader = status("node1", 1, 1, 100, "");
        assert_eq!(order(vec![back, leader]).unwrap(), "node1 node3");
    }

    /// Its snapshot does not have what it has not applied, and the backup counts as complete.
    #[test]
    fn follower_that_is_far_behind_takes_no_snapshot_before_the_leader() {
        let of = |applied| {
            let leader = status("node1", 1, 1, 5000, "");
            let statuses = vec![leader, status("node2", 2, 1, applied, "")];
            Survey::new(statuses).unwrap()
        };
        let [node1, node2] = ["node1", "node2"].map(|name| name.parse().unwrap());
        for (applied, first, lag) in [(4000, "node2", None), (3999, "node1", Some(1001))] {
            let survey = of(applied);
            assert_eq!(survey.statuses[0].0.as_str(), first);
            assert_eq!(survey.lag(&node2), lag);
            assert_eq!(survey.lag(&node1), None);
        }
        let near = status("node3", 3, 1, 4990, "");
        let statuses = of(10).statuses.into_iter().chain([near]);
        assert_eq!(order(statuses.collect()).unwrap(), "node3 node1 node2");
        // Without a leader, the member with the most changes is the first one.
        let without = [("node1", 5000), ("node2", 10)];
        let without = without.map(|(name, applied)| status(name, 1, 0, applied, ""));
        assert_eq!(order(without.to_vec()).unwrap(), "node1 node2");
    }

    #[test]
    fn members_of_different_clusters_are_refused() {
        let mut back = status("node3", 3, 0, 5000, "");
        back.1.cluster = 0xabc;
        let members = ["node1", "node2"].map(|name| status(name, 1, 1, 100, ""));
        for is_learner in [false, true] {
            back.1.is_learner = is_learner;
            let all = [back.clone()].into_iter().chain(members.clone());
            let Err(Disagreement::Clusters(parts)) = order(all.collect()) else {
                panic!("the members are of different clusters");
            };
            let parts = parts.iter().map(|part| (part.hosts.len(), part.has_leader));
            assert_eq!(parts.collect::<Vec<_>>(), [(1, false), (2, true)]);
        }
    }

    #[test]
    fn different_data_is_refused() {
        let alarm = r#","errors":["memberID:2 alarm:CORRUPT "]"#;
        let corrupt = status("node2", 2, 1, 98, alarm);
        let refused = order(vec![status("node1", 1, 1, 100, ""), corrupt]);
        let host = "node2".parse().unwrap();
        assert_eq!(refused, Err(Disagreement::Data(vec![host])));
    }
}

//! The members of etcd at the time of a backup, and which of them takes the snapshot.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use futures_util::future::join_all;
use serde::Deserialize;

use super::manifest::{EtcdMember, EtcdSnapshot};
use crate::CommandError;
use crate::snapshot::Member;
use kubexm_types::HostName;

/// The number of entries of raft by which a follower can be behind and still takes the snapshot before the leader.
///
/// Members answer at slightly different times, so that a healthy follower seems to be a few entries behind. A member that has
/// just come back applies its entries one after another, and its snapshot does not have the others.
const NEAR: u64 = 1000;

/// What a member states about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MemberStatus {
    host: HostName,
    id: u64,
    cluster_id: u64,
    version: String,
    /// 0 without a leader.
    leader: u64,
    /// The index of the last change that the member applied.
    applied: u64,
    is_learner: bool,
    /// Alarms and other problems.
    errors: Vec<String>,
}

/// One element of the output of `etcdctl endpoint status -w json`.
#[derive(Deserialize)]
struct Endpoint {
    #[serde(rename = "Status")]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    header: Header,
    version: String,
    #[serde(default)]
    leader: u64,
    #[serde(default)]
    raft_applied_index: u64,
    #[serde(default)]
    is_learner: bool,
    #[serde(default)]
    errors: Vec<String>,
}

#[derive(Deserialize)]
struct Header {
    cluster_id: u64,
    member_id: u64,
}

/// What etcdutl prints about a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct SnapshotStatus {
    pub(super) hash: u64,
    pub(super) revision: u64,
}

impl MemberStatus {
    /// Parses the output of etcdctl.
    pub(super) fn parse(host: &HostName, text: &str) -> Result<Self, String> {
        let found: Vec<Endpoint> = serde_json::from_str(text.trim())
            .map_err(|error| format!("etcdctl printed an unexpected status: {error}"))?;
        let status = found.into_iter().next();
        let status = status.ok_or("etcdctl printed no status")?.status;
        Ok(Self {
            host: host.clone(),
            id: status.header.member_id,
            cluster_id: status.header.cluster_id,
            version: status.version,
            leader: status.leader,
            applied: status.raft_applied_index,
            is_learner: status.is_learner,
            errors: status.errors,
        })
    }

    fn is_leader(&self) -> bool {
        self.id == self.leader
    }

    /// Returns by how many entries of raft the member is behind the highest index of its cluster.
    fn lag(&self, highest: &Highest) -> u64 {
        let highest = highest.get(&self.cluster_id);
        highest.map_or(0, |highest| highest.saturating_sub(self.applied))
    }

    /// Returns the place of the member among those that are asked for a snapshot; the lowest is the first.
    ///
    /// A learner, or a member without a leader, may lack changes. So does a follower that is far behind: the leader comes before
    /// it. A member that came back after a restore can have applied more changes than all others, so that their number decides
    /// last.
    fn rank(&self, highest: &Highest) -> impl Ord + use<> {
        let has_leader = self.leader != 0;
        let place = match (self.is_leader(), self.lag(highest) > NEAR) {
            (false, false) => 0,
            (true, _) => 1,
            (false, true) => 2,
        };
        (self.is_learner, !has_leader, place, Reverse(self.applied))
    }
}

/// The highest index that a member with a leader has applied, by ID of the cluster of etcd.
type Highest = BTreeMap<u64, u64>;

fn highest<'a>(statuses: impl Iterator<Item = &'a MemberStatus>) -> Highest {
    let mut highest = Highest::new();
    for status in statuses.filter(|status| status.leader != 0) {
        let known = highest.entry(status.cluster_id).or_default();
        *known = status.applied.max(*known);
    }
    highest
}

/// Asks members for their status. Returns the answers in the same order, or why a member does not answer.
pub(super) async fn ask(members: &[Member<'_>]) -> Vec<Result<MemberStatus, String>> {
    let asked = members.iter().map(async |member| {
        let text = member.status().await?;
        MemberStatus::parse(member.name, &text)
    });
    join_all(asked).await
}

/// Orders members for a snapshot that is taken before a change: as for a backup, then those that do not answer. The change
/// may be what ends a disagreement of members, which therefore is not an error.
pub(crate) async fn by_preference<'a>(members: Vec<Member<'a>>) -> Vec<Member<'a>> {
    let statuses = ask(&members).await;
    let highest = highest(statuses.iter().filter_map(|status| status.as_ref().ok()));
    let mut ranked: Vec<_> = statuses.into_iter().zip(members).collect();
    ranked.sort_by_key(|(status, _)| {
        let rank = status.as_ref().ok().map(|status| status.rank(&highest));
        (rank.is_none(), rank)
    });
    ranked.into_iter().map(|(_, member)| member).collect()
}

/// The members that answered, in the order in which they are asked for a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Survey {
    statuses: Vec<MemberStatus>,
}

impl Survey {
    /// Orders the members: those that are not the leader first, and among these the one with the most changes. A follower that
    /// is far behind comes after the leader. A member without a leader is the last one, and a learner is not asked: both may
    /// lack changes.
    ///
    /// # Errors
    /// No member answers, members are of different clusters, or etcd reports that they have different data.
    pub(super) fn new(
        mut statuses: Vec<MemberStatus>,
        silent: &[String],
    ) -> Result<Self, CommandError> {
        let corrupt: Vec<String> = statuses
            .iter()
            .filter(|status| status.errors.iter().any(|error| error.contains("CORRUPT")))
            .map(|status| status.host.to_string())
            .collect();
        if !corrupt.is_empty() {
            return Err(CommandError::Configuration(format!(
                "cannot back up etcd: {}: etcd has the alarm CORRUPT: members have different data\nhint: find the member \
                 with the wrong data with `etcdctl endpoint hashkv --cluster`, remove it, and let it join again; \
                 https://etcd.io/docs/latest/op-guide/data_corruption/",
                corrupt.join(", ")
            )));
        }
        same_cluster(&statuses)?;
        statuses.retain(|status| !status.is_learner);
        if statuses.is_empty() {
            let silent = if silent.is_empty() {
                String::new()
            } else {
                format!(":\n  {}", silent.join("\n  "))
            };
            return Err(CommandError::Configuration(format!(
                "cannot back up etcd: no member answers{silent}\nhint: start etcd on one of these hosts, then run the same \
                 command again"
            )));
        }
        let highest = highest(statuses.iter());
        statuses.sort_by_key(|status| status.rank(&highest));
        Ok(Self { statuses })
    }

    /// Returns by how many entries of raft a member is behind, if its snapshot can lack changes for this reason.
    pub(super) fn lag(&self, host: &HostName) -> Option<u64> {
        let highest = highest(self.statuses.iter());
        let status = self.statuses.iter().find(|status| status.host == *host)?;
        Some(status.lag(&highest)).filter(|lag| *lag > NEAR)
    }

    /// Returns whether the members have a leader.
    pub(super) fn has_quorum(&self) -> bool {
        self.statuses.iter().any(|status| status.leader != 0)
    }

    /// Returns the members in the order in which they are asked.
    pub(super) fn order<'a>(&self, members: &'a [Member<'a>]) -> Vec<&'a Member<'a>> {
        let statuses = self.statuses.iter();
        statuses
            .filter_map(|status| members.iter().find(|member| *member.name == status.host))
            .collect()
    }

    /// Returns what the manifest states about the snapshot of a member.
    ///
    /// # Errors
    /// A program printed something else than JSON of its form.
    pub(super) fn describe(
        &self,
        host: &HostName,
        deployment: &str,
        [snapshot, count]: &[String; 2],
    ) -> Result<EtcdSnapshot, String> {
        let wrong =
            |error: serde_json::Error| format!("unexpected answer about the snapshot: {error}");
        let snapshot: SnapshotStatus = serde_json::from_str(snapshot).map_err(wrong)?;
        let count = count
            .trim()
            .parse()
            .map_err(|_| "etcdctl printed no number of keys")?;
        let status = self.statuses.iter().find(|status| status.host == *host);
        let status = status.ok_or("the member does not answer")?;
        let members = self.statuses.iter().map(|status| EtcdMember {
            host: status.host.clone(),
            id: format!("{:x}", status.id),
            version: status.version.clone(),
            leader: status.is_leader(),
        });
        Ok(EtcdSnapshot {
            deployment: deployment.to_owned(),
            version: status.version.clone(),
            member: host.clone(),
            quorum: status.leader != 0,
            members: members.collect(),
            cluster_id: format!("{:x}", status.cluster_id),
            revision: snapshot.revision,
            hash: snapshot.hash,
            keys: count,
        })
    }
}

/// Refuses members of different clusters: a host that was off during a restore can come back with the former data.
fn same_cluster(statuses: &[MemberStatus]) -> Result<(), CommandError> {
    let mut clusters: BTreeMap<u64, Vec<&MemberStatus>> = BTreeMap::new();
    for status in statuses {
        clusters.entry(status.cluster_id).or_default().push(status);
    }
    if clusters.len() < 2 {
        return Ok(());
    }
    let lines = clusters.iter().map(|(id, members)| {
        let hosts: Vec<&str> = members.iter().map(|member| member.host.as_str()).collect();
        let leader = if members.iter().any(|member| member.leader != 0) {
            "with a leader"
        } else {
            "without a leader"
        };
        format!("  {}: ID {id:x}, {leader}", hosts.join(", "))
    });
    Err(CommandError::Configuration(format!(
        "cannot back up etcd: members belong to different clusters of etcd:\n{}\nhint: a host that was off during a restore \
         comes back with former data: reset it with `kubexm node remove HOST`, or stop its etcd and run the same command \
         again; `kubexm backup restore` gives all members the same data",
        lines.collect::<Vec<_>>().join("\n")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(host: &str, id: u64, leader: u64, applied: u64, more: &str) -> MemberStatus {
        let text = format!(
            r#"[{{"Endpoint":"https://127.0.0.1:2379","Status":{{"header":{{"cluster_id":17237436991929493444,"member_id":{id},
            "revision":9,"raft_term":2}},"version":"3.6.8","dbSize":20480,"leader":{leader},"raftIndex":10,
            "raftTerm":2,"raftAppliedIndex":{applied}{more}}}}}]"#
        );
        MemberStatus::parse(&host.parse().unwrap(), &text).unwrap()
    }

    fn order(statuses: Vec<MemberStatus>) -> Result<String, String> {
        let survey = Survey::new(statuses, &["node3: no answer".to_owned()]);
        let survey = survey.map_err(|error| error.to_string())?;
        let hosts = survey.statuses.iter().map(|status| status.host.as_str());
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
        let refused = order(vec![learner]).unwrap_err();
        assert!(
            refused.contains("no member answers:\n  node3: no answer\nhint: "),
            "{refused}"
        );
        let without = status("node2", 2, 0, 98, r#","errors":["etcdserver: no leader"]"#);
        let survey = Survey::new(vec![without], &[]).unwrap();
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
            Survey::new(statuses, &[]).unwrap()
        };
        let [node1, node2] = ["node1", "node2"].map(|name| name.parse().unwrap());
        for (applied, first, lag) in [(4000, "node2", None), (3999, "node1", Some(1001))] {
            let survey = of(applied);
            assert_eq!(survey.statuses[0].host.as_str(), first);
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
        back.cluster_id = 0xabc;
        let members = ["node1", "node2"].map(|name| status(name, 1, 1, 100, ""));
        for is_learner in [false, true] {
            back.is_learner = is_learner;
            let all = [back.clone()].into_iter().chain(members.clone());
            let refused = order(all.collect()).unwrap_err();
            insta::allow_duplicates! {
                insta::assert_snapshot!(refused, @"
                cannot back up etcd: members belong to different clusters of etcd:
                  node3: ID abc, without a leader
                  node1, node2: ID ef37ad9dc622a7c4, with a leader
                hint: a host that was off during a restore comes back with former data: reset it with `kubexm node remove HOST`, or stop its etcd and run the same command again; `kubexm backup restore` gives all members the same data
                ");
            }
        }
    }

    #[test]
    fn backup_of_different_data_is_refused() {
        let corrupt = status(
            "node2",
            2,
            1,
            98,
            r#","errors":["memberID:2 alarm:CORRUPT "]"#,
        );
        let refused = order(vec![status("node1", 1, 1, 100, ""), corrupt]).unwrap_err();
        assert!(
            refused.starts_with("cannot back up etcd: node2: etcd has the alarm CORRUPT"),
            "{refused}"
        );
    }

    #[test]
    fn snapshot_is_described_by_its_revision_hash_and_keys() {
        let survey = Survey::new(vec![status("node1", 17, 17, 100, "")], &[]).unwrap();
        let printed = [
            r#"{"hash":4208134212,"revision":1193,"totalKey":1203,"totalSize":2265088,"version":"3.6.0"}"#.to_owned(),
            "311".to_owned(),
        ];
        let host = "node1".parse().unwrap();
        let found = survey.describe(&host, "kubeadm", &printed).unwrap();
        assert_eq!(
            (found.revision, found.hash, found.keys),
            (1193, 4_208_134_212, 311)
        );
        assert!(found.quorum && found.members[0].leader && found.members[0].id == "11");
        let wrong = ["no".to_owned(), String::new()];
        survey.describe(&host, "kubeadm", &wrong).unwrap_err();
    }
}

//! What members of etcd report.

use std::collections::BTreeSet;

use serde::Deserialize;

use kubexm_types::Version;
use kubexm_types::untrusted::Untrusted;

/// The alarm of a member whose data differs from that of the others.
pub(super) const CORRUPT: &str = "CORRUPT";

/// A member of etcd, by its own report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) id: u64,
    pub(crate) cluster: u64,
    pub(crate) version: Option<Version>,
    /// The leader that the member knows.
    pub(crate) leader: Option<u64>,
    pub(crate) is_learner: bool,
    /// Size of the database in bytes; `None` if the member did not report it, as with the other sizes.
    pub(crate) size: Option<u64>,
    /// The part of the database that is in use, in bytes.
    pub(crate) size_in_use: Option<u64>,
    /// The largest size of the database, in bytes. etcd reports it since 3.6.
    pub(crate) quota: Option<u64>,
    /// Alarms, as in `NOSPACE`.
    pub(crate) alarms: BTreeSet<String>,
    /// The members whose data differs, by their ids. Each member reports the alarms of all.
    pub(crate) corrupt: BTreeSet<u64>,
    /// Other problems that the member reports.
    pub(crate) errors: Vec<String>,
    /// The names of all members; `None` if the member did not answer, as without a quorum.
    pub(crate) members: Option<Vec<String>>,
}

/// An entry of `etcdctl endpoint status -w json`. Numbers that are 0 are left out
/// (<https://github.com/etcd-io/etcd/blob/main/api/etcdserverpb/rpc.proto>, `StatusResponse`).
#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "Status")]
    status: Status,
}

#[derive(Deserialize)]
struct Status {
    header: Header,
    version: String,
    #[serde(rename = "dbSize")]
    size: Option<u64>,
    #[serde(rename = "dbSizeInUse")]
    size_in_use: Option<u64>,
    #[serde(rename = "dbSizeQuota")]
    quota: Option<u64>,
    leader: Option<u64>,
    #[serde(rename = "isLearner")]
    is_learner: Option<bool>,
    errors: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Header {
    cluster_id: u64,
    member_id: u64,
}

/// The result of `etcdctl member list -w json`.
#[derive(Deserialize)]
struct List {
    members: Vec<Listed>,
}

/// A member in the list that all members share.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Listed {
    #[serde(rename = "ID")]
    pub(crate) id: u64,
    /// Empty for a member that has never started.
    #[serde(default)]
    pub(crate) name: String,
    #[serde(rename = "peerURLs", default)]
    pub(crate) peers: Vec<String>,
    #[serde(rename = "isLearner", default)]
    pub(crate) is_learner: bool,
}

/// Parses the status of one member.
pub(super) fn member(json: &[u8]) -> Result<Member, &'static str> {
    let mut members = statuses(json)?;
    match (members.pop(), members.is_empty()) {
        (Some(member), true) => Ok(member),
        _ => Err("is not the status of one member"),
    }
}

/// Parses the status of each member that has answered.
pub(crate) fn statuses(json: &[u8]) -> Result<Vec<Member>, &'static str> {
    let entries: Vec<Entry> =
        serde_json::from_slice(json).map_err(|_| "is not the status of a member")?;
    Ok(entries
        .into_iter()
        .map(|entry| of_status(entry.status))
        .collect())
}

fn of_status(status: Status) -> Member {
    let mut alarms = BTreeSet::new();
    let mut corrupt = BTreeSet::new();
    let mut errors = Vec::new();
    for error in status.errors.iter().flatten() {
        match error.trim().split_once("alarm:") {
            Some((member, alarm)) => {
                let id = member.trim().strip_prefix("memberID:");
                let id = id.and_then(|id| id.parse::<u64>().ok());
                corrupt.extend(id.filter(|_| alarm.trim() == CORRUPT));
                alarms.insert(shown(alarm));
            }
            None => errors.push(shown(error)),
        }
    }
    Member {
        id: status.header.member_id,
        cluster: status.header.cluster_id,
        version: status.version.parse().ok(),
        leader: status.leader.filter(|leader| *leader != 0),
        is_learner: status.is_learner.unwrap_or(false),
        size: status.size,
        size_in_use: status.size_in_use,
        quota: status.quota.filter(|quota| *quota > 0),
        alarms,
        corrupt,
        errors,
        members: None,
    }
}

/// Parses the list of members; `None` for an empty text.
pub(super) fn members(json: &[u8]) -> Result<Option<Vec<String>>, &'static str> {
    if json.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let names = list(json)?.into_iter();
    Ok(Some(names.map(|member| shown(&member.name)).collect()))
}

/// Parses the list of members.
pub(crate) fn list(json: &[u8]) -> Result<Vec<Listed>, &'static str> {
    let list: List = serde_json::from_slice(json).map_err(|_| "is not a list of members")?;
    Ok(list.members)
}

fn shown(text: &str) -> String {
    Untrusted::one_line(text, 100).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_of_a_member_is_read() {
        let json = br#"[{"Endpoint":"https://127.0.0.1:2379","Status":{"header":{"cluster_id":14841639068965178418,
            "member_id":10276657743932975437,"revision":9,"raft_term":2},"version":"3.6.8","dbSize":20480,
            "leader":10276657743932975437,"raftIndex":9,"raftTerm":2,"raftAppliedIndex":9,
            "errors":["memberID:10276657743932975437 alarm:NOSPACE ","etcdserver: no leader"],"dbSizeInUse":16384,
            "storageVersion":"3.6.0","dbSizeQuota":8589934592}}]"#;
        let member = member(json).unwrap();
        assert_eq!(member.leader, Some(member.id));
        assert_eq!((member.size, member.quota), (Some(20480), Some(8 << 30)));
        assert_eq!(member.version, Some(Version::new(3, 6, 8)));
        assert_eq!(member.alarms, BTreeSet::from(["NOSPACE".to_owned()]));
        assert_eq!(member.errors, ["etcdserver: no leader"]);
        assert!(!member.is_learner);
    }

    #[test]
    fn alarm_names_the_member_whose_data_differs() {
        let json = br#"[{"Status":{"header":{"cluster_id":1,"member_id":2},"version":"3.6.8",
            "errors":["memberID:7 alarm:CORRUPT ","memberID:2 alarm:NOSPACE "]}}]"#;
        let member = member(json).unwrap();
        assert_eq!(member.corrupt, BTreeSet::from([7]));
        assert_eq!(member.alarms.len(), 2);
    }

    #[test]
    fn unknown_sizes_are_not_zero() {
        let json = br#"[{"Status":{"header":{"cluster_id":1,"member_id":2},"version":"3.5.21","leader":0}}]"#;
        let member = member(json).unwrap();
        assert_eq!(
            (member.leader, member.size, member.quota),
            (None, None, None)
        );
    }

    #[test]
    fn other_documents_are_refused() {
        for wrong in [
            "",
            "{}",
            "[]",
            "null",
            r#"[{"Status":{"version":"3.6.8"}}]"#,
        ] {
            assert!(member(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert_eq!(members(b" \n"), Ok(None));
        assert!(members(b"{}").is_err());
        let list = br#"{"header":{},"members":[{"ID":1,"name":"node1"},{"ID":2}]}"#;
        assert_eq!(
            members(list),
            Ok(Some(vec!["node1".to_owned(), String::new()]))
        );
    }
}

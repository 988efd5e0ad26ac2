//! What `etcdctl -w json` and `etcdutl -w json` print. A host can print anything: unknown fields are ignored, sizes saturate,
//! and a document without a field that is necessary is refused.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeOwned, Deserializer, Visitor};
use serde::{Deserialize, de};

use kubexm_types::{Untrusted, Version};

/// The alarm of a member whose data differs from that of the others.
pub const CORRUPT: &str = "CORRUPT";

/// What a program printed is not what it prints about this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.as_str())]
pub enum Unreadable {
    /// No status of members.
    Status,
    /// The status of no member, or of several ones.
    OneStatus,
    /// No list of members.
    List,
    /// No hash of the data.
    Hash,
    /// Not what etcdutl prints about a snapshot.
    Snapshot,
    /// No number of keys.
    Keys,
}

impl Unreadable {
    /// Returns the end of a sentence about what was printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Status => "is not the status of a member",
            Self::OneStatus => "is not the status of one member",
            Self::List => "is not a list of members",
            Self::Hash => "is not the hash of a member",
            Self::Snapshot => "is not the status of a snapshot",
            Self::Keys => "has no number of keys",
        }
    }
}

/// A member of etcd, by its own report: an entry of `etcdctl endpoint status -w json`. etcdctl leaves numbers out that are 0
/// (<https://github.com/etcd-io/etcd/blob/main/api/etcdserverpb/rpc.proto>, `StatusResponse`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Its ID.
    pub id: u64,
    /// The ID of its cluster.
    pub cluster: u64,
    /// Its version, as it writes it.
    pub version: String,
    /// The leader that the member knows.
    pub leader: Option<u64>,
    /// Whether it does not count for the majority.
    pub is_learner: bool,
    /// The index of the last change that the member applied.
    pub applied: u64,
    /// Size of the database in bytes; `None` if the member did not report it, as with the other sizes.
    pub size: Option<u64>,
    /// The part of the database that is in use, in bytes.
    pub size_in_use: Option<u64>,
    /// The largest size of the database, in bytes. etcd reports it since 3.6.
    pub quota: Option<u64>,
    /// Alarms, as in `NOSPACE`. Each member reports the alarms of all.
    pub alarms: BTreeSet<String>,
    /// The members whose data differs, by their IDs.
    pub corrupt: BTreeSet<u64>,
    /// Other problems that the member reports.
    pub errors: Vec<String>,
}

#[derive(Deserialize)]
struct StatusEntry {
    #[serde(rename = "Status")]
    status: StatusResponse,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusResponse {
    header: Header,
    version: String,
    #[serde(default)]
    leader: u64,
    #[serde(default)]
    is_learner: bool,
    #[serde(default)]
    raft_applied_index: Size,
    db_size: Option<Size>,
    db_size_in_use: Option<Size>,
    db_size_quota: Option<Size>,
    errors: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Header {
    cluster_id: u64,
    member_id: u64,
}

/// A number of bytes or of changes. What is below 0 counts as 0, and what is too large as the largest number.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Size(u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;

        impl Visitor<'_> for Number {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Size, E> {
                Ok(Size(value))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Size, E> {
                Ok(Size(u64::try_from(value).unwrap_or(0)))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Size, E> {
                // serde_json reads a larger number as one of floating point.
                Ok(Size(if value < 1.0 { 0 } else { u64::MAX }))
            }
        }

        deserializer.deserialize_any(Number)
    }
}

impl Status {
    /// Parses the status of each member that has answered.
    ///
    /// # Errors
    /// It is another document.
    pub fn all(json: &[u8]) -> Result<Vec<Self>, Unreadable> {
        let entries: Vec<StatusEntry> = parse(json, Unreadable::Status)?;
        let entries = entries.into_iter();
        Ok(entries.map(|entry| entry.status.into()).collect())
    }

    /// Parses the status of one member.
    ///
    /// # Errors
    /// It is another document, or the status of several members.
    pub fn one(json: &[u8]) -> Result<Self, Unreadable> {
        let mut all = Self::all(json)?;
        match (all.pop(), all.is_empty()) {
            (Some(status), true) => Ok(status),
            _ => Err(Unreadable::OneStatus),
        }
    }

    /// Returns the version, if it is one.
    pub fn version(&self) -> Option<Version> {
        self.version.parse().ok()
    }

    /// Returns whether the member is the leader.
    pub fn is_leader(&self) -> bool {
        self.leader == Some(self.id)
    }

    /// Returns whether the member votes and knows a leader. A learner keeps the one that it knew.
    pub fn votes_with_a_leader(&self) -> bool {
        self.leader.is_some() && !self.is_learner
    }

    /// Returns whether the member has a leader and reports nothing but alarms.
    pub fn is_healthy(&self) -> bool {
        self.leader.is_some() && self.errors.is_empty()
    }

    /// Returns alarms and other problems that the member reports.
    pub fn problems(&self) -> Vec<String> {
        self.alarms.iter().chain(&self.errors).cloned().collect()
    }
}

impl From<StatusResponse> for Status {
    fn from(found: StatusResponse) -> Self {
        let mut alarms = BTreeSet::new();
        let mut corrupt = BTreeSet::new();
        let mut errors = Vec::new();
        for error in found.errors.iter().flatten() {
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
        let size = |size: Option<Size>| size.map(|Size(size)| size);
        Self {
            id: found.header.member_id,
            cluster: found.header.cluster_id,
            version: shown(&found.version),
            leader: Some(found.leader).filter(|leader| *leader != 0),
            is_learner: found.is_learner,
            applied: found.raft_applied_index.0,
            size: size(found.db_size),
            size_in_use: size(found.db_size_in_use),
            quota: size(found.db_size_quota).filter(|quota| *quota > 0),
            alarms,
            corrupt,
            errors,
        }
    }
}

/// A member in the list that all members share: an entry of `etcdctl member list -w json`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Listed {
    /// Its ID.
    #[serde(rename = "ID")]
    pub id: u64,
    /// Empty for a member that has never started.
    #[serde(default)]
    pub name: String,
    /// Its addresses for other members.
    #[serde(rename = "peerURLs", default)]
    pub peers: Vec<String>,
    /// Its addresses for clients; none for a member that has never started.
    #[serde(rename = "clientURLs", default)]
    pub clients: Vec<String>,
    /// Whether it does not count for the majority.
    #[serde(rename = "isLearner", default)]
    pub is_learner: bool,
}

#[derive(Deserialize)]
struct List {
    members: Vec<Listed>,
}

impl Listed {
    /// Parses the list of members.
    ///
    /// # Errors
    /// It is another document.
    pub fn all(json: &[u8]) -> Result<Vec<Self>, Unreadable> {
        let list: List = parse(json, Unreadable::List)?;
        let mut members = list.members;
        for member in &mut members {
            member.name = shown(&member.name);
        }
        Ok(members)
    }

    /// Returns whether other members reach it at this address.
    pub fn has_peer(&self, peer: &str) -> bool {
        self.peers.iter().any(|one| one == peer)
    }

    /// Returns whether it is a learner at this address that has never started.
    pub fn is_new_at(&self, peer: &str) -> bool {
        self.is_learner && self.name.is_empty() && self.has_peer(peer)
    }

    /// Returns the name for people.
    pub fn label(&self) -> String {
        if self.name.is_empty() {
            "one that has never started".to_owned()
        } else {
            self.name.clone()
        }
    }
}

/// The hash of all keys and values of a member: the entry of `etcdctl endpoint hashkv -w json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct MemberHash {
    /// The hash.
    pub hash: u64,
}

#[derive(Deserialize)]
struct HashEntry {
    #[serde(rename = "HashKV")]
    hash: MemberHash,
}

impl MemberHash {
    /// Parses the hash of one member.
    ///
    /// # Errors
    /// It is another document.
    pub fn one(json: &[u8]) -> Result<Self, Unreadable> {
        let entries: [HashEntry; 1] = parse(json, Unreadable::Hash)?;
        let [entry] = entries;
        Ok(entry.hash)
    }
}

/// What `etcdutl snapshot status -w json` prints about a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct SnapshotStatus {
    /// The hash by which etcdutl identifies the content.
    pub hash: u64,
    /// The revision of the snapshot.
    pub revision: u64,
}

impl SnapshotStatus {
    /// Parses the status of a snapshot.
    ///
    /// # Errors
    /// It is another document.
    pub fn one(json: &[u8]) -> Result<Self, Unreadable> {
        parse(json, Unreadable::Snapshot)
    }
}

/// Parses the number of keys that `etcdctl get --count-only -w fields` found.
///
/// # Errors
/// It is something else.
pub(crate) fn keys(text: &str) -> Result<u64, Unreadable> {
    let count = text
        .lines()
        .find_map(|line| line.strip_prefix("\"Count\" :"));
    let count = count.and_then(|count| count.trim().parse().ok());
    count.ok_or(Unreadable::Keys)
}

fn parse<T: DeserializeOwned>(json: &[u8], otherwise: Unreadable) -> Result<T, Unreadable> {
    serde_json::from_slice(json).map_err(|_| otherwise)
}

fn shown(text: &str) -> String {
    Untrusted::one_line(text, 100).to_string()
}

#[cfg(test)]
mod tests;

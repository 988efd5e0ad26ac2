//! `cluster.json` in the state directory: which cluster it is, which hosts belong to it, and the fingerprints of
//! its authorities.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

use kubexm_types::{Authority, ClusterId, ClusterIdentity, Digest, HostName, UtcTime};

/// What kubexm did with a host of the cluster last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum HostState {
    /// An install began to change it.
    Member,
    /// A reset began to revert the changes.
    Resetting,
}

/// How far the removal of a host from the cluster is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RemovalState {
    /// It has begun, and may have to go on.
    Begun,
    /// The host is not in the cluster any more, and was reset.
    Complete,
    /// The host is not in the cluster any more. It could not be reached, so it still has everything of the cluster.
    WithoutContact,
}

/// A host that was removed from the cluster, or is about to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Removal {
    /// When it began.
    pub since: UtcTime,
    pub state: RemovalState,
}

/// The record of a cluster in its state directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRecord {
    #[serde(flatten)]
    identity: ClusterIdentity,
    /// All hosts that an install has changed and that no reset has completed.
    #[serde(default)]
    hosts: BTreeMap<HostName, HostState>,
    /// Hosts that were removed from the cluster while it went on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    removed: BTreeMap<HostName, Removal>,
    /// The fingerprints of the authorities that the cluster has.
    #[serde(default)]
    authorities: BTreeMap<Authority, Digest>,
    /// Fields of later versions.
    #[serde(flatten)]
    others: serde_json::Map<String, serde_json::Value>,
}

impl ClusterRecord {
    /// The name of the file in the state directory.
    pub const FILE: &str = "cluster.json";

    /// Creates the record of a new cluster, with a random ID. Writes nothing.
    ///
    /// # Errors
    /// The operating system provides no random numbers.
    pub fn new(name: HostName) -> io::Result<Self> {
        Ok(Self::of(ClusterIdentity {
            id: ClusterId::random()?,
            name,
            created: UtcTime::now().whole_seconds(),
        }))
    }

    /// Creates the record of a cluster that exists. Writes nothing.
    pub fn of(identity: ClusterIdentity) -> Self {
        Self {
            identity,
            hosts: BTreeMap::new(),
            removed: BTreeMap::new(),
            authorities: BTreeMap::new(),
            others: serde_json::Map::new(),
        }
    }

    /// Returns the identity that hosts carry.
    pub fn identity(&self) -> &ClusterIdentity {
        &self.identity
    }

    /// Returns the fingerprints of the authorities.
    pub fn authorities(&self) -> &BTreeMap<Authority, Digest> {
        &self.authorities
    }

    /// Returns the hosts that belong to the cluster: an install has changed them, and no reset has completed.
    pub fn hosts(&self) -> impl Iterator<Item = &HostName> {
        self.hosts.keys()
    }

    /// Returns whether a host belongs to the cluster.
    pub fn has_host(&self, name: &HostName) -> bool {
        self.hosts.contains_key(name)
    }

    /// Returns whether a reset of the host has begun and its end was not recorded. Such a host may already be
    /// without a trace of kubexm.
    pub fn is_resetting(&self, name: &HostName) -> bool {
        self.hosts.get(name) == Some(&HostState::Resetting)
    }

    /// Returns the hosts that were removed from the cluster, or are about to be.
    pub fn removed(&self) -> &BTreeMap<HostName, Removal> {
        &self.removed
    }

    /// Notes that the removal of a host begins. A removal that has begun keeps its date.
    pub fn begin_removal(&mut self, name: &HostName) {
        let state = RemovalState::Begun;
        let since = || UtcTime::now().whole_seconds();
        self.removed
            .entry(name.clone())
            .and_modify(|removal| removal.state = state)
            .or_insert_with(|| Removal {
                since: since(),
                state,
            });
    }

    /// Notes that a host is not in the cluster any more.
    pub fn end_removal(&mut self, name: &HostName, state: RemovalState) {
        self.hosts.remove(name);
        if let Some(removal) = self.removed.get_mut(name) {
            removal.state = state;
        }
    }

    /// Forgets that hosts were removed: they may come back.
    pub fn readmit<'a>(&mut self, names: impl IntoIterator<Item = &'a HostName>) {
        for name in names {
            self.removed.remove(name);
        }
    }

    /// Adds hosts that an install will change.
    pub fn add_hosts<'a>(&mut self, names: impl IntoIterator<Item = &'a HostName>) {
        let members = names.into_iter().cloned();
        self.hosts
            .extend(members.map(|name| (name, HostState::Member)));
    }

    /// Notes that a reset of hosts begins. A host that does not belong to the cluster is not added.
    pub fn begin_reset<'a>(&mut self, names: impl IntoIterator<Item = &'a HostName>) {
        for name in names {
            if let Some(state) = self.hosts.get_mut(name) {
                *state = HostState::Resetting;
            }
        }
    }

    /// Removes a host whose reset is complete. The cluster is gone when [`ClusterRecord::hosts`] is empty.
    pub fn end_reset(&mut self, name: &HostName) {
        self.hosts.remove(name);
    }

    /// Adds the fingerprint of an authority, unless the record already has one.
    pub fn learn(&mut self, authority: Authority, fingerprint: Digest) {
        self.authorities.entry(authority).or_insert(fingerprint);
    }

    /// Changes the fingerprint of an authority that was replaced.
    pub fn replace(&mut self, authority: Authority, fingerprint: Digest) {
        self.authorities.insert(authority, fingerprint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HostName {
        text.parse().unwrap()
    }

    fn read_again(record: &ClusterRecord) -> ClusterRecord {
        serde_json::from_value(serde_json::to_value(record).unwrap()).unwrap()
    }

    #[test]
    fn record_is_kept_with_fields_of_later_versions() {
        let mut record = ClusterRecord::new(name("example")).unwrap();
        record.add_hosts([&name("node1"), &name("node2")]);
        record.learn(Authority::FrontProxy, Digest::of(b"1"));
        record.learn(Authority::FrontProxy, Digest::of(b"2"));
        let text = serde_json::to_string(&record).unwrap();
        assert!(text.contains("\"front-proxy\""), "{text}");
        let later = text.replacen('{', "{\"later\": [1],", 1);
        let mut loaded: ClusterRecord = serde_json::from_str(&later).unwrap();
        assert_eq!(loaded.identity(), record.identity());
        assert_eq!(loaded.authorities(), record.authorities());
        assert_eq!(
            loaded.authorities()[&Authority::FrontProxy],
            Digest::of(b"1")
        );
        loaded.begin_reset([&name("node1"), &name("other")]);
        let text = serde_json::to_string(&loaded).unwrap();
        assert!(text.contains("\"later\""), "{text}");
        let mut loaded = read_again(&loaded);
        assert!(loaded.is_resetting(&name("node1")) && !loaded.is_resetting(&name("node2")));
        loaded.end_reset(&name("node1"));
        assert_eq!(loaded.hosts().collect::<Vec<_>>(), [&name("node2")]);
        assert!(!loaded.has_host(&name("other")));
    }

    #[test]
    fn removed_host_is_remembered_until_it_is_admitted_again() {
        let mut record = ClusterRecord::new(name("example")).unwrap();
        let (node1, node2) = (name("node1"), name("node2"));
        record.add_hosts([&node1, &node2]);
        record.begin_removal(&node2);
        let since = record.removed()[&node2].since.clone();
        record.end_removal(&node2, RemovalState::WithoutContact);
        record.begin_removal(&node2);
        record.end_removal(&node2, RemovalState::Complete);
        let mut loaded = read_again(&record);
        assert_eq!(loaded.hosts().collect::<Vec<_>>(), [&node1]);
        let state = RemovalState::Complete;
        assert_eq!(loaded.removed()[&node2], Removal { since, state });
        loaded.readmit([&node2]);
        assert!(loaded.removed().is_empty());
    }
}

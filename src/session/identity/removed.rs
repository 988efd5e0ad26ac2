//! Hosts that were removed from a cluster while it went on.

use std::collections::BTreeMap;

use super::KnownCluster;
use crate::CommandError;
use crate::state_record::StateRecord;
use kubexm_config::Cluster;
use kubexm_engine::cluster::{Removal, RemovalState};
use kubexm_preflight::Finding;
use kubexm_types::{FindingKind, HostName};

impl KnownCluster {
    /// Returns the hosts that were removed from the cluster, or are about to be.
    pub fn removed(&self) -> BTreeMap<HostName, Removal> {
        let record = self.record.as_ref();
        record.map_or_else(BTreeMap::new, |record| record.removed().clone())
    }

    /// Lets hosts come back that were removed from the cluster. The next record that is saved has them again.
    pub fn readmit<'a>(&mut self, names: impl IntoIterator<Item = &'a HostName>) {
        if let Some(record) = &mut self.record {
            record.readmit(names);
        }
    }

    /// Records that hosts are about to leave the cluster.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn begin_removal<'a>(
        &mut self,
        names: impl IntoIterator<Item = &'a HostName>,
    ) -> Result<(), CommandError> {
        let mut record = self.record_or_new()?;
        for name in names {
            record.begin_removal(name);
        }
        record.save(&self.state)?;
        self.record = Some(record);
        Ok(())
    }

    /// Records that a host is not in the cluster any more.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn end_removal(
        &mut self,
        name: &HostName,
        state: RemovalState,
    ) -> Result<(), CommandError> {
        let Some(record) = &mut self.record else {
            return Ok(());
        };
        record.end_removal(name, state);
        record.save(&self.state)
    }
}

/// Returns what an install must say about a host that was removed from the cluster.
pub(super) fn finding(cluster: &Cluster, name: &HostName, removal: &Removal) -> Option<Finding> {
    let since = &removal.since;
    let is_listed = cluster.host(name).is_some();
    let (what, hint) = match (removal.state, is_listed) {
        (RemovalState::Begun, _) => (
            format!("its removal from the cluster began {since} and is not complete"),
            format!(
                "complete it with a cluster file that has the host with all its roles: kubexm node remove {name}"
            ),
        ),
        (RemovalState::Complete, true) => (
            format!("was removed from the cluster ({since}), and the cluster file has it"),
            format!(
                "remove it from the cluster file, or add it to the cluster again: kubexm node add {name}"
            ),
        ),
        (RemovalState::WithoutContact, true) => (
            format!(
                "was removed from the cluster ({since}) without contact, and the cluster file has it"
            ),
            format!(
                "remove it from the cluster file; if the host is back, reset it with kubexm node remove {name}; if it is \
                 a new one, add it with kubexm node add {name}"
            ),
        ),
        (RemovalState::Complete, false) => return None,
        (RemovalState::WithoutContact, false) => (
            format!(
                "was removed from the cluster ({since}) without contact: if it starts again, its kubelet registers the \
                 node again"
            ),
            format!(
                "keep the host off; if it is back, reset it with a cluster file that has it with all its roles: kubexm node \
                 remove {name}"
            ),
        ),
    };
    let is_fatal = is_listed;
    Some(Finding::new(
        FindingKind::Membership,
        name,
        is_fatal,
        what,
        &hint,
    ))
}

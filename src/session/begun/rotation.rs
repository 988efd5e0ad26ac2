//! The record of a rotation that has begun. It stays in the state directory until the last phase is complete.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Operation, Standing, StateRecord};
use kubexm_deploy::rotation::RotationPhase;
use kubexm_types::{Authority, UtcTime};

/// A phase of a rotation, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// Every program trusts the present and the next authority.
    Trust,
    /// The new authority signs.
    Switch,
    /// No program trusts the former authority any more.
    Remove,
}

impl Phase {
    /// All phases.
    pub const ALL: [Self; 3] = [Self::Trust, Self::Switch, Self::Remove];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::Switch => "switch",
            Self::Remove => "remove",
        }
    }

    /// Returns 1, 2 or 3.
    pub fn number(self) -> usize {
        match self {
            Self::Trust => 1,
            Self::Switch => 2,
            Self::Remove => 3,
        }
    }

    /// Returns the phase after this one; `None` after the last one.
    pub fn next(self) -> Option<Self> {
        match self {
            Self::Trust => Some(Self::Switch),
            Self::Switch => Some(Self::Remove),
            Self::Remove => None,
        }
    }

    pub fn planned(self) -> RotationPhase {
        match self {
            Self::Trust => RotationPhase::Trust,
            Self::Switch => RotationPhase::Switch,
            Self::Remove => RotationPhase::Remove,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A rotation that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotationRecord {
    /// The time of its beginning, which identifies it.
    pub id: String,
    pub authorities: BTreeSet<Authority>,
    pub phase: Phase,
    /// Whether every host has completed the phase.
    pub is_complete: bool,
    /// Whether the rotation is about to be undone.
    #[serde(default)]
    pub is_cancelled: bool,
    /// Since when every namespace has the next CA, by the clock of the first control plane. A pod that started later trusts it.
    #[serde(default)]
    pub trusted_since: Option<UtcTime>,
    /// Since when no namespace has the former CA any more, by the same clock. A pod that started later does not trust it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_since: Option<UtcTime>,
    /// Since when no API server signs tokens with the former key.
    #[serde(default)]
    pub switched_at: Option<UtcTime>,
    /// Whether API servers extend the validity of tokens, by the cluster file at the beginning of the rotation. `None` if
    /// the key of service accounts stays, or if an earlier version began the rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extends_tokens: Option<bool>,
}

impl StateRecord for RotationRecord {
    const FILE: &'static str = "rotation.json";
    const TITLE: &'static str = "the record of the rotation";
    const HINT: &'static str = "restore the file from a backup of the state directory";
}

impl RotationRecord {
    /// Returns the record of a rotation that begins.
    pub fn new(authorities: BTreeSet<Authority>) -> Self {
        Self {
            id: UtcTime::now().whole_seconds().to_string(),
            authorities,
            phase: Phase::Trust,
            is_complete: false,
            is_cancelled: false,
            trusted_since: None,
            removed_since: None,
            switched_at: None,
            extends_tokens: None,
        }
    }

    /// Returns the command that goes on with the rotation.
    pub fn operation(&self) -> Operation {
        if self.authorities.contains(&Authority::ServiceAccounts) {
            Operation::RotateServiceAccountKey
        } else {
            Operation::RotateCas
        }
    }

    /// Returns this command as a user types it.
    pub fn command(&self) -> String {
        format!("kubexm {}", self.operation())
    }

    /// Returns whether only tokens of the former key delay the end. It can take a year, in which certificates end.
    pub fn waits_for_tokens(&self) -> bool {
        let has_key_alone = self.authorities == [Authority::ServiceAccounts].into();
        has_key_alone && self.is_complete && !self.is_cancelled
    }

    /// Returns what other commands wait for.
    pub(super) fn refusal(&self) -> Standing {
        let command = self.command();
        let cancel = if self.phase == Phase::Trust {
            format!(", or cancel the rotation with {command} --cancel")
        } else {
            String::new()
        };
        Standing {
            what: self.standing(),
            hint: format!("complete the rotation first with {command}{cancel}"),
        }
    }

    /// Returns what is replaced, as in `Kubernetes CA and etcd CA`.
    pub fn title(&self) -> String {
        let names: Vec<String> = self.authorities.iter().map(ToString::to_string).collect();
        match names.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
            _ => names.concat(),
        }
    }

    /// Returns how far the rotation is, in a line.
    pub fn standing(&self) -> String {
        let Self { phase, .. } = self;
        let how = match (self.is_cancelled, self.is_complete) {
            (true, _) => "is being cancelled",
            (false, true) => "complete",
            (false, false) => "interrupted",
        };
        format!(
            "rotation of the {} in phase {} of 3 ({phase}, {how})",
            self.title(),
            phase.number()
        )
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::CommandError;
    use crate::begun;

    fn permit(state: &Path, operation: Operation) -> Result<(), CommandError> {
        begun::permit(operation, &crate::example::cluster(), state)
    }

    #[test]
    fn commands_that_change_certificates_wait_for_the_end_of_a_rotation() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        permit(state, Operation::Install).unwrap();
        let mut record = RotationRecord::new([Authority::Kubernetes, Authority::Etcd].into());
        record.save(state).unwrap();
        assert_eq!(RotationRecord::read(state).unwrap(), Some(record.clone()));
        let refused = permit(state, Operation::Install).unwrap_err().to_string();
        assert!(
            refused.contains("rotation of the Kubernetes CA and etcd CA in phase 1 of 3")
                && refused.contains("hint: ")
                && refused.contains("--cancel"),
            "{refused}"
        );
        record.phase = Phase::Switch;
        record.save(state).unwrap();
        let refused = permit(state, Operation::Upgrade).unwrap_err().to_string();
        assert!(!refused.contains("--cancel"), "{refused}");
        permit(state, Operation::Reset).unwrap();
        assert!(permit(state, Operation::CertsRenew).is_err());
        // Tokens delay phase 3 for longer than certificates are valid.
        let mut keys = RotationRecord::new([Authority::ServiceAccounts].into());
        keys.save(state).unwrap();
        assert!(permit(state, Operation::CertsRenew).is_err());
        keys.is_complete = true;
        keys.save(state).unwrap();
        permit(state, Operation::CertsRenew).unwrap();
        assert!(permit(state, Operation::Install).is_err());
        RotationRecord::remove(state).unwrap();
        permit(state, Operation::Install).unwrap();
        std::fs::write(state.join(RotationRecord::FILE), "x").unwrap();
        assert!(permit(state, Operation::Install).is_err());
        // A damaged record does not prevent the end of the cluster.
        permit(state, Operation::Reset).unwrap();
    }

    #[test]
    fn certificates_are_renewed_while_tokens_of_the_former_key_expire() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        let is_permitted = |record: &RotationRecord, operation: Operation| {
            record.save(state).unwrap();
            permit(state, operation).is_ok()
        };
        let mut keys = RotationRecord::new([Authority::ServiceAccounts].into());
        assert!(!is_permitted(&keys, Operation::CertsRenew));
        for phase in [Phase::Trust, Phase::Switch] {
            let complete = RotationRecord {
                phase,
                is_complete: true,
                ..keys.clone()
            };
            assert!(is_permitted(&complete, Operation::CertsRenew), "{phase}");
            for command in [
                Operation::Install,
                Operation::Upgrade,
                Operation::NodeAdd,
                Operation::RegistryMove,
            ] {
                assert!(!is_permitted(&complete, command), "{command}");
            }
        }
        keys.is_complete = true;
        keys.is_cancelled = true;
        assert!(!is_permitted(&keys, Operation::CertsRenew));
        // A renewal would issue certificates of a CA that is being replaced.
        for authorities in [
            vec![Authority::Kubernetes],
            vec![Authority::Etcd, Authority::ServiceAccounts],
        ] {
            let mut others = RotationRecord::new(authorities.into_iter().collect());
            others.is_complete = true;
            assert!(!is_permitted(&others, Operation::CertsRenew));
        }
    }
}

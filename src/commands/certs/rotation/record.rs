//! The record of a rotation that has begun. It stays in the state directory until the last phase is complete.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::{CommandError, FileError, state_record};
use kubexm_deploy::rotation::RotationPhase;
use kubexm_engine::plan::Journal;
use kubexm_types::{Authority, UtcTime};

/// The file in the state directory.
const FILE: &str = state_record::ROTATION;

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

    pub(super) fn planned(self) -> RotationPhase {
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
pub(crate) struct RotationRecord {
    /// The time of its beginning, which identifies it.
    pub(super) id: String,
    pub(super) authorities: BTreeSet<Authority>,
    pub(super) phase: Phase,
    /// Whether every host has completed the phase.
    pub(super) is_complete: bool,
    /// Whether the rotation is about to be undone.
    #[serde(default)]
    pub(super) is_cancelled: bool,
    /// Since when every namespace has the next CA, by the clock of the first control plane. A pod that started later trusts it.
    #[serde(default)]
    pub(super) trusted_since: Option<String>,
    /// Since when no namespace has the former CA any more, by the same clock. A pod that started later does not trust it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) removed_since: Option<String>,
    /// Since when no API server signs tokens with the former key.
    #[serde(default)]
    pub(super) switched_at: Option<String>,
    /// Whether API servers extend the validity of tokens, by the cluster file at the beginning of the rotation. `None` if
    /// the key of service accounts stays, or if an earlier version began the rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) extends_tokens: Option<bool>,
}

impl RotationRecord {
    /// Returns the rotation that has begun; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or it is not such a record.
    pub(crate) fn load(state: &Path) -> Result<Option<Self>, CommandError> {
        state_record::load(
            &state.join(FILE),
            "read the record of the rotation",
            "restore the file from a backup of the state directory",
        )
    }

    /// Returns the record of a rotation that begins.
    pub(super) fn new(authorities: BTreeSet<Authority>) -> Self {
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

    /// Returns since when no API server signs tokens with the former key; `None` if it is unknown.
    pub(super) fn switched(&self) -> Option<OffsetDateTime> {
        let text = self.switched_at.as_deref()?;
        OffsetDateTime::parse(text, &Rfc3339).ok()
    }

    /// Writes the record, durably.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn save(&self, journal: &Journal) -> Result<PathBuf, CommandError> {
        let text = serde_json::to_vec_pretty(self).map_err(CommandError::configuration)?;
        let saved = journal.save(FILE, &text);
        saved.map_err(|error| {
            FileError::io("write rotation.json in", journal.folder(), &error).into()
        })
    }

    /// Removes the record of a rotation that has ended.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(super) fn remove(journal: &Journal) -> Result<(), CommandError> {
        state_record::remove(&journal.folder().join(FILE))
    }

    /// Returns the command that goes on with the rotation.
    pub(super) fn command(&self) -> &'static str {
        if self.authorities.contains(&Authority::ServiceAccounts) {
            "kubexm certs rotate-sa-key"
        } else {
            "kubexm certs rotate-ca"
        }
    }

    /// Returns what is replaced, as in `Kubernetes CA and etcd CA`.
    pub(super) fn title(&self) -> String {
        let names: Vec<String> = self.authorities.iter().map(ToString::to_string).collect();
        match names.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
            _ => names.concat(),
        }
    }

    /// Returns how far the rotation is, in a line.
    pub(crate) fn standing(&self) -> String {
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

/// Commands that work during a rotation, because they go on with it, remove what cannot take part in it, or end the cluster.
const PERMITTED: [&str; 7] = [
    "certs rotate-ca",
    "certs rotate-sa-key",
    "reset",
    "node remove",
    "backup create",
    "backup restore",
    "conformance",
];

/// Refuses a command that would write files of one authority while a rotation needs those of two.
///
/// # Errors
/// A rotation has begun, and the command is not permitted meanwhile.
pub(crate) fn permit(state: &Path, command: &str) -> Result<(), CommandError> {
    let Some(record) = RotationRecord::load(state)? else {
        return Ok(());
    };
    // Tokens delay the end of such a rotation for a year, in which certificates end. Their renewal keeps both keys.
    let waits = record.authorities == [Authority::ServiceAccounts].into() && record.is_complete;
    let is_renewal = command == "certs renew" && waits && !record.is_cancelled;
    if PERMITTED.contains(&command) || is_renewal {
        return Ok(());
    }
    let cancel = match record.phase {
        Phase::Trust => format!(
            ", or cancel the rotation with {} --cancel",
            record.command()
        ),
        _ => String::new(),
    };
    Err(CommandError::Configuration(format!(
        "cannot run {command} now: {}\nhint: complete the rotation first with {}{cancel}",
        record.standing(),
        record.command()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_change_certificates_wait_for_the_end_of_a_rotation() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path()).unwrap();
        permit(folder.path(), "install").unwrap();
        let mut record = RotationRecord::new([Authority::Kubernetes, Authority::Etcd].into());
        record.save(&journal).unwrap();
        assert_eq!(
            RotationRecord::load(folder.path()).unwrap(),
            Some(record.clone())
        );
        let refused = permit(folder.path(), "install").unwrap_err().to_string();
        assert!(
            refused.contains("rotation of the Kubernetes CA and etcd CA in phase 1 of 3")
                && refused.contains("hint: ")
                && refused.contains("--cancel"),
            "{refused}"
        );
        record.phase = Phase::Switch;
        record.save(&journal).unwrap();
        let refused = permit(folder.path(), "upgrade").unwrap_err().to_string();
        assert!(!refused.contains("--cancel"), "{refused}");
        permit(folder.path(), "reset").unwrap();
        assert!(permit(folder.path(), "certs renew").is_err());
        // Tokens delay phase 3 for longer than certificates are valid.
        let mut keys = RotationRecord::new([Authority::ServiceAccounts].into());
        keys.save(&journal).unwrap();
        assert!(permit(folder.path(), "certs renew").is_err());
        keys.is_complete = true;
        keys.save(&journal).unwrap();
        permit(folder.path(), "certs renew").unwrap();
        assert!(permit(folder.path(), "install").is_err());
        RotationRecord::remove(&journal).unwrap();
        permit(folder.path(), "install").unwrap();
        std::fs::write(folder.path().join(FILE), "x").unwrap();
        assert!(permit(folder.path(), "reset").is_err());
    }

    #[test]
    fn certificates_are_renewed_while_tokens_of_the_former_key_expire() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path()).unwrap();
        let is_permitted = |record: &RotationRecord, command: &str| {
            record.save(&journal).unwrap();
            permit(folder.path(), command).is_ok()
        };
        let mut keys = RotationRecord::new([Authority::ServiceAccounts].into());
        assert!(!is_permitted(&keys, "certs renew"));
        for phase in [Phase::Trust, Phase::Switch] {
            let complete = RotationRecord {
                phase,
                is_complete: true,
                ..keys.clone()
            };
            assert!(is_permitted(&complete, "certs renew"), "{phase}");
            for command in ["install", "upgrade", "node add", "registry move"] {
                assert!(!is_permitted(&complete, command), "{command}");
            }
        }
        keys.is_complete = true;
        keys.is_cancelled = true;
        assert!(!is_permitted(&keys, "certs renew"));
        // A renewal would issue certificates of a CA that is being replaced.
        for authorities in [
            vec![Authority::Kubernetes],
            vec![Authority::Etcd, Authority::ServiceAccounts],
        ] {
            let mut others = RotationRecord::new(authorities.into_iter().collect());
            others.is_complete = true;
            assert!(!is_permitted(&others, "certs renew"));
        }
    }
}

//! Which command may change a cluster now: some have begun and are not complete, and others wait for them.
//!
//! A command with several stages keeps a record in the state directory until it is complete. [`permit`] asks all
//! records; [`decision`] has one decision for each pair of a record and a command.

/// Declares an enum and the list of its values, so that a new value is in the list.
macro_rules! listed {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$value_about:meta])* $value:ident,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$value_about])* $value,)+
        }

        impl $name {
            /// All values in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$value,)+];
        }
    };
}

mod on_hosts;
mod operation;
mod records;
mod relocation;
mod renewal;
mod replacement;
mod restore;
mod rotation;
mod standing;
mod upgrade;

use std::path::Path;

use self::on_hosts::Document;
pub use self::on_hosts::{agree, elsewhere};
pub use self::operation::Operation;
use self::records::Records;
pub use self::relocation::{
    MoveRecord, Stage as MoveStage, is_same, joined, permit_new_hosts, refused,
};
pub use self::renewal::RenewalRecord;
pub use self::replacement::{ReplacementRecord, end_replacement};
pub use self::restore::{RestoreRecord, Stage as RestoreStage, record_install};
pub use self::rotation::{Phase, RotationRecord};
pub use self::standing::Standing;
pub use self::upgrade::{RollbackRecord, RollbackStage, UpgradeRecord};
use crate::CommandError;
pub use crate::state_record::StateRecord;
use kubexm_config::Cluster;

listed! {
    /// A command that has begun and is not complete, in the order in which a command asks for them.
    pub enum Begun {
        /// `certs rotate-ca` or `certs rotate-sa-key`: programs trust two authorities.
        Rotation,
        /// `backup restore`: the data of etcd is being replaced.
        Restore,
        /// `registry move`: two sets of hosts have registries.
        Move,
        /// `upgrade` or its rollback: hosts have programs of different versions.
        Upgrade,
        /// `node replace`: hosts are out of the cluster, or not yet in it.
        Replacement,
    }
}

/// Files of records that are not of [`Begun`]. They are worthless without the hosts.
const OTHERS: [&str; 2] = [Document::FILE, RenewalRecord::FILE];

/// Returns the files of all records of this module.
pub fn files() -> impl Iterator<Item = &'static str> {
    let begun = Begun::ALL.iter().map(|begun| begun.file());
    OTHERS.into_iter().chain(begun)
}

/// Returns those that are worthless without the hosts on which their commands have begun.
pub fn files_of_hosts() -> impl Iterator<Item = &'static str> {
    let begun = Begun::ALL.iter().filter(|begun| begun.is_of_hosts());
    OTHERS.into_iter().chain(begun.map(|begun| begun.file()))
}

/// Whether a command may run while another one has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    /// It may. The record is not even read.
    Permitted,
    /// It waits for the end.
    Waits,
    /// It waits, unless this is so.
    WaitsUnless(Exception),
}

/// When a command need not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exception {
    /// The rotation waits for the end of tokens, which can take longer than certificates are valid. A renewal keeps
    /// both keys.
    TokensExpire,
    /// The registries of the cluster file have all images. A host that is lost would prevent both the move and its end.
    HasImages,
    /// The cluster file has the version of before: an upgrade that failed before its first change leaves a record.
    IsOfVersionBefore,
    /// A move of the registries has begun, too, and this command continues it.
    ContinuesMove,
    /// A rotation has begun, too, and this command continues it.
    ContinuesRotation,
}

/// Decides whether a command may run while another one has begun.
fn decision(begun: Begun, operation: Operation) -> Decision {
    use Decision::{Permitted, Waits, WaitsUnless};
    use Operation as O;
    match begun {
        // These write files of one authority while a rotation needs those of two. The others go on with it, remove what
        // cannot take part in it, or end the cluster.
        Begun::Rotation => match operation {
            O::RotateCas
            | O::RotateServiceAccountKey
            | O::Reset
            | O::NodeRemove
            | O::BackupCreate
            | O::BackupRestore
            | O::Conformance => Permitted,
            O::CertsRenew => WaitsUnless(Exception::TokensExpire),
            O::Install
            | O::NodeAdd
            | O::NodeReplace
            | O::Upgrade
            | O::Rollback
            | O::StatusFix
            | O::RegistryAdd
            | O::RegistrySync
            | O::RegistryRemove
            | O::RegistryGc
            | O::RegistryGcUnused
            | O::RegistryMove
            | O::AppApply
            | O::AppRemove => Waits,
        },
        // These would start API servers, or change hosts, while the data of etcd is being replaced. A removal takes out a
        // host that a restore cannot reach.
        Begun::Restore => match operation {
            O::BackupRestore | O::Reset | O::NodeRemove => Permitted,
            O::Install
            | O::NodeAdd
            | O::NodeReplace
            | O::Upgrade
            | O::Rollback
            | O::StatusFix
            | O::CertsRenew
            | O::RotateCas
            | O::RotateServiceAccountKey
            | O::BackupCreate
            | O::Conformance
            | O::RegistryAdd
            | O::RegistrySync
            | O::RegistryRemove
            | O::RegistryGc
            | O::RegistryGcUnused
            | O::RegistryMove
            | O::AppApply
            | O::AppRemove => Waits,
        },
        // These would let nodes use registries that a move ends or has ended.
        Begun::Move => match operation {
            O::RegistryMove | O::Reset | O::BackupCreate | O::BackupRestore | O::Conformance => {
                Permitted
            }
            O::NodeRemove => WaitsUnless(Exception::HasImages),
            O::Install
            | O::NodeAdd
            | O::NodeReplace
            | O::Upgrade
            | O::Rollback
            | O::StatusFix
            | O::CertsRenew
            | O::RotateCas
            | O::RotateServiceAccountKey
            | O::RegistryAdd
            | O::RegistrySync
            | O::RegistryRemove
            | O::RegistryGc
            | O::RegistryGcUnused
            | O::AppApply
            | O::AppRemove => Waits,
        },
        Begun::Upgrade => match operation {
            // They give nodes the programs of the bundle without a drain.
            O::Install | O::NodeAdd | O::NodeReplace | O::StatusFix => {
                WaitsUnless(Exception::IsOfVersionBefore)
            }
            // Nodes of both versions need images.
            O::RegistryRemove | O::RegistryGcUnused => Waits,
            O::RegistryMove => WaitsUnless(Exception::ContinuesMove),
            O::RotateCas | O::RotateServiceAccountKey => WaitsUnless(Exception::ContinuesRotation),
            O::Upgrade
            | O::Rollback
            | O::NodeRemove
            | O::CertsRenew
            | O::BackupCreate
            | O::BackupRestore
            | O::Conformance
            | O::RegistryAdd
            | O::RegistrySync
            | O::RegistryGc
            | O::AppApply
            | O::AppRemove
            | O::Reset => Permitted,
        },
        // Other commands see a cluster with fewer hosts, which works.
        Begun::Replacement => match operation {
            O::Install
            | O::NodeAdd
            | O::NodeRemove
            | O::NodeReplace
            | O::Upgrade
            | O::Rollback
            | O::StatusFix
            | O::CertsRenew
            | O::RotateCas
            | O::RotateServiceAccountKey
            | O::BackupCreate
            | O::BackupRestore
            | O::Conformance
            | O::RegistryAdd
            | O::RegistrySync
            | O::RegistryRemove
            | O::RegistryGc
            | O::RegistryGcUnused
            | O::RegistryMove
            | O::AppApply
            | O::AppRemove
            | O::Reset => Permitted,
        },
    }
}

impl Begun {
    /// Returns the file of its record.
    fn file(self) -> &'static str {
        match self {
            Self::Rotation => RotationRecord::FILE,
            Self::Restore => RestoreRecord::FILE,
            Self::Move => MoveRecord::FILE,
            Self::Upgrade => UpgradeRecord::FILE,
            Self::Replacement => ReplacementRecord::FILE,
        }
    }

    /// Returns whether its record is worthless without the hosts on which it has begun.
    fn is_of_hosts(self) -> bool {
        match self {
            Self::Rotation | Self::Upgrade => true,
            Self::Restore | Self::Move | Self::Replacement => false,
        }
    }

    /// Returns whether other state directories must know it, so that control planes have its record, too.
    fn is_shared(self) -> bool {
        match self {
            Self::Rotation | Self::Restore | Self::Move | Self::Upgrade => true,
            Self::Replacement => false,
        }
    }

    /// Returns whether a command goes on with this one.
    fn is_continued_by(self, operation: Operation) -> bool {
        use Operation as O;
        let continued = match operation {
            O::RotateCas | O::RotateServiceAccountKey => Self::Rotation,
            O::BackupRestore => Self::Restore,
            O::RegistryMove => Self::Move,
            O::Upgrade | O::Rollback => Self::Upgrade,
            O::NodeReplace => Self::Replacement,
            O::Install
            | O::NodeAdd
            | O::NodeRemove
            | O::StatusFix
            | O::CertsRenew
            | O::BackupCreate
            | O::Conformance
            | O::RegistryAdd
            | O::RegistrySync
            | O::RegistryRemove
            | O::RegistryGc
            | O::RegistryGcUnused
            | O::AppApply
            | O::AppRemove
            | O::Reset => return false,
        };
        continued == self
    }

    /// Returns what has begun; `None` if nothing has, or if the cluster does not notice it. Changes nothing.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn standing(
        self,
        cluster: &Cluster,
        state: &Path,
    ) -> Result<Option<Standing>, CommandError> {
        self.standing_except(None, cluster, &Records::State(state))
    }

    /// Returns why a command must wait; `None` if it may run. Changes nothing.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn refusal(
        self,
        operation: Operation,
        cluster: &Cluster,
        state: &Path,
    ) -> Result<Option<Standing>, CommandError> {
        self.refusal_of(operation, cluster, &Records::State(state))
    }

    fn refusal_of(
        self,
        operation: Operation,
        cluster: &Cluster,
        records: &Records<'_>,
    ) -> Result<Option<Standing>, CommandError> {
        let exception = match decision(self, operation) {
            Decision::Permitted => return Ok(None),
            Decision::Waits => None,
            Decision::WaitsUnless(exception) => Some(exception),
        };
        self.standing_except(exception, cluster, records)
    }

    fn standing_except(
        self,
        exception: Option<Exception>,
        cluster: &Cluster,
        records: &Records<'_>,
    ) -> Result<Option<Standing>, CommandError> {
        Ok(match self {
            Self::Rotation => {
                let expires = exception == Some(Exception::TokensExpire);
                records
                    .read::<RotationRecord>()?
                    .filter(|record| !(expires && record.waits_for_tokens()))
                    .map(|record| record.refusal())
            }
            Self::Restore => records
                .read::<RestoreRecord>()?
                .filter(RestoreRecord::is_down)
                .map(|record| record.refusal()),
            Self::Move => {
                let has_images = exception == Some(Exception::HasImages);
                records
                    .read::<MoveRecord>()?
                    .and_then(|record| record.open(cluster))
                    .filter(|record| !(has_images && record.has_images(cluster)))
                    .map(|record| record.refusal())
            }
            Self::Upgrade => {
                let Some(record) = records.read::<UpgradeRecord>()? else {
                    return Ok(None);
                };
                let is_excepted = match exception {
                    Some(Exception::IsOfVersionBefore) => {
                        record.is_of_version_before(&cluster.kubernetes.version)
                    }
                    Some(Exception::ContinuesMove) => records
                        .read::<MoveRecord>()?
                        .and_then(|record| record.open(cluster))
                        .is_some(),
                    Some(Exception::ContinuesRotation) => {
                        records.read::<RotationRecord>()?.is_some()
                    }
                    Some(Exception::TokensExpire | Exception::HasImages) | None => false,
                };
                (!is_excepted).then(|| record.refusal())
            }
            Self::Replacement => records
                .read::<ReplacementRecord>()?
                .map(|record| record.refusal()),
        })
    }
}

/// Fails if a command must wait for the end of another one. Changes nothing.
///
/// # Errors
/// Another command has begun, or its record cannot be read.
pub fn permit(operation: Operation, cluster: &Cluster, state: &Path) -> Result<(), CommandError> {
    for begun in Begun::ALL.iter().copied() {
        if let Some(standing) = begun.refusal(operation, cluster, state)? {
            return Err(standing.refuses(operation));
        }
    }
    Ok(())
}

/// Removes the record of a move that the cluster file agrees with, for a command that would wait for the move.
///
/// # Errors
/// The file cannot be read or removed.
pub fn forget_complete_move(
    operation: Operation,
    cluster: &Cluster,
    state: &Path,
) -> Result<(), CommandError> {
    let asks = decision(Begun::Move, operation) != Decision::Permitted;
    if asks && MoveRecord::load(cluster, state)?.is_none() {
        MoveRecord::remove(state)?;
    }
    Ok(())
}

#[cfg(test)]
pub mod tests;

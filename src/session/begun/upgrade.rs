//! The record of an upgrade that has begun. An upgrade that was interrupted continues with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Standing, StateRecord};
use crate::{CommandError, archives};
use kubexm_deploy::backup::target_revision;
use kubexm_types::{UtcTime, Version};

/// An upgrade that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpgradeRecord {
    /// The version of the oldest API server before the upgrade.
    pub from: Version,
    pub to: Version,
    /// The directory with the snapshot of etcd before each hop, by the version of the hop.
    pub archives: BTreeMap<Version, PathBuf>,
    /// The rollback of the upgrade, if one has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<RollbackRecord>,
}

/// A rollback that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RollbackRecord {
    /// The version to which the cluster goes back.
    pub to: Version,
    /// Identifies the restore of the snapshot on hosts.
    pub id: String,
    pub stage: RollbackStage,
    /// The revision of the restored data. A record of an earlier version has none.
    #[serde(default)]
    pub target: u64,
}

/// What a rollback does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RollbackStage {
    /// Changes one node after another, without the snapshot.
    InPlace,
    /// Puts the images of the former version into the registry.
    Seed,
    /// Creates the former data of etcd beside the present one.
    Prepare,
    /// Stops the cluster and replaces the data.
    Replace,
    /// Puts back programs and files of control planes and members.
    Programs,
    /// Starts etcd.
    Etcd,
    /// Starts the control planes.
    ControlPlanes,
    /// Restarts kubelets, and proves that the cluster works.
    Nodes,
    /// Removes files of the restore.
    Tidy,
    /// Puts back the programs of workers, and applies the cluster file.
    Reconcile,
}

impl RollbackStage {
    /// Returns whether an upgrade can go on instead: the snapshot has replaced nothing yet.
    pub fn can_be_given_up(self) -> bool {
        matches!(self, Self::Seed | Self::Prepare)
    }

    /// Returns the stage after this one; `None` for the last one.
    pub fn next(self) -> Option<Self> {
        match self {
            Self::Seed => Some(Self::Prepare),
            Self::Prepare => Some(Self::Replace),
            Self::Replace => Some(Self::Programs),
            Self::Programs => Some(Self::Etcd),
            Self::Etcd => Some(Self::ControlPlanes),
            Self::ControlPlanes => Some(Self::Nodes),
            Self::Nodes => Some(Self::Tidy),
            Self::Tidy => Some(Self::Reconcile),
            Self::InPlace | Self::Reconcile => None,
        }
    }
}

impl RollbackRecord {
    /// Returns the record of a rollback that begins.
    pub fn new(to: &Version, stage: RollbackStage) -> Self {
        let now = UtcTime::now().whole_seconds().to_string();
        Self {
            to: to.clone(),
            id: now.replace(['-', ':'], ""),
            stage,
            target: target_revision(time::OffsetDateTime::now_utc()),
        }
    }
}

impl StateRecord for UpgradeRecord {
    const FILE: &'static str = "upgrade.json";
    const TITLE: &'static str = "the record of the upgrade";
    const HINT: &'static str =
        "remove the file; the upgrade then begins with another snapshot of etcd";
}

impl UpgradeRecord {
    /// Returns the upgrade that has begun; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or it is not such a record.
    pub fn load(state: &Path) -> Result<Option<Self>, CommandError> {
        let mut record = Self::read(state)?;
        // The paths can be relative to another directory, or the state directory has moved.
        for archive in record
            .iter_mut()
            .flat_map(|record| record.archives.values_mut())
        {
            let here = archive
                .file_name()
                .map(|name| state.join(archives::FOLDER).join(name));
            if let Some(here) = here.filter(|here| !archive.is_dir() && here.is_dir()) {
                *archive = here;
            }
        }
        Ok(record)
    }

    /// Returns the record of an upgrade that begins.
    pub fn new(from: &Version, to: &Version) -> Self {
        Self {
            from: from.clone(),
            to: to.clone(),
            archives: BTreeMap::new(),
            rollback: None,
        }
    }

    /// Adds what was saved before a hop.
    pub fn add(&mut self, version: &Version, archive: PathBuf) {
        self.archives.insert(version.clone(), archive);
    }

    /// Removes what was saved before a hop to the minor version of `version`.
    pub fn forget_minor(&mut self, version: &Version) {
        self.archives
            .retain(|other, _| other.major_minor() != version.major_minor());
    }

    /// Fails if this upgrade has another target, or if its rollback has begun to replace something.
    pub fn check(&self, to: &Version) -> Result<(), CommandError> {
        let rollback = self.rollback.as_ref();
        if let Some(rollback) = rollback.filter(|rollback| !rollback.stage.can_be_given_up()) {
            return Err(CommandError::refused(format!(
                "a rollback to Kubernetes {} has begun",
                rollback.to
            ))
            .hint("complete it with kubexm upgrade --rollback, and upgrade again afterwards"));
        }
        if self.to == *to {
            return Ok(());
        }
        Err(CommandError::refused(format!(
            "an upgrade from Kubernetes {} to {} has begun, and the cluster file has {to}",
            self.from, self.to
        ))
        .hint(format!(
            "first complete that upgrade with the version {} in the cluster file, or go back with \
             kubexm upgrade --rollback",
            self.to
        )))
    }

    /// Returns whether the upgrade does not have a rollback, and began with this version.
    pub(super) fn is_of_version_before(&self, version: &Version) -> bool {
        self.rollback.is_none() && self.from == *version
    }

    /// Returns what other commands wait for.
    pub(super) fn refusal(&self) -> Standing {
        Standing {
            what: format!(
                "an upgrade from Kubernetes {} to {} has begun",
                self.from, self.to
            ),
            hint: "complete it with kubexm upgrade, or go back with kubexm upgrade --rollback"
                .to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::begun::{self, Operation};

    fn permit(
        cluster: &kubexm_config::Cluster,
        state: &Path,
        operation: Operation,
    ) -> Result<(), CommandError> {
        begun::permit(operation, cluster, state)
    }

    /// Commands that give nodes the programs of the bundle without a drain.
    const REFUSED: [Operation; 4] = [
        Operation::Install,
        Operation::NodeAdd,
        Operation::NodeReplace,
        Operation::StatusFix,
    ];

    #[test]
    fn rotation_waits_for_the_end_of_an_upgrade() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        let begins = || {
            permit(
                &crate::example::cluster(),
                folder.path(),
                Operation::RotateCas,
            )
        };
        begins().unwrap();
        let version = |text: &str| text.parse().unwrap();
        let record = UpgradeRecord::new(&version("1.35.4"), &version("1.36.3"));
        record.save(state).unwrap();
        let refused = begins().unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("from Kubernetes 1.35.4 to 1.36.3")
        );
    }

    #[test]
    fn other_commands_do_not_go_on_with_an_upgrade() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        let at = |version: &str| {
            let mut cluster = crate::example::cluster();
            cluster.kubernetes.version = version.parse().unwrap();
            cluster
        };
        let permitted =
            |version: &str, operation: Operation| permit(&at(version), folder.path(), operation);
        permitted("1.36.3", Operation::Install).unwrap();
        let (from, to) = (Version::new(1, 34, 4), Version::new(1, 36, 3));
        let mut record = UpgradeRecord::new(&from, &to);
        record.save(state).unwrap();
        for command in REFUSED {
            permitted("1.34.4", command).unwrap();
            let refused = permitted("1.36.3", command).unwrap_err().to_string();
            let expected = format!(
                "cannot run {command} now: an upgrade from Kubernetes 1.34.4 to 1.36.3 has begun\nhint: "
            );
            assert!(refused.starts_with(&expected), "{refused}");
        }
        for command in [
            Operation::Upgrade,
            Operation::Rollback,
            Operation::NodeRemove,
            Operation::Reset,
        ] {
            permitted("1.36.3", command).unwrap();
        }
        record.rollback = Some(RollbackRecord::new(&from, RollbackStage::InPlace));
        record.save(state).unwrap();
        permitted("1.34.4", Operation::Install).unwrap_err();
    }

    #[test]
    fn archive_is_found_after_the_state_directory_has_moved() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        let (from, to) = (Version::new(1, 35, 4), Version::new(1, 36, 3));
        let mut record = UpgradeRecord::new(&from, &to);
        let before = PathBuf::from("elsewhere/archive/20261126T065943Z");
        record.archives.insert(to.clone(), before.clone());
        record.save(state).unwrap();
        let found = || {
            UpgradeRecord::load(folder.path())
                .unwrap()
                .unwrap()
                .archives
        };
        assert_eq!(found()[&to], before);
        let here = folder.path().join("archive/20261126T065943Z");
        std::fs::create_dir_all(&here).unwrap();
        assert_eq!(found()[&to], here);
    }

    #[test]
    fn archive_of_a_hop_is_replaced_with_all_its_patch_versions() {
        let (from, to) = (Version::new(1, 34, 4), Version::new(1, 36, 3));
        let mut record = UpgradeRecord::new(&from, &to);
        for version in [Version::new(1, 35, 4), Version::new(1, 35, 6), to] {
            record.add(&version, PathBuf::from("before"));
        }
        record.forget_minor(&Version::new(1, 35, 6));
        let left: Vec<String> = record.archives.keys().map(ToString::to_string).collect();
        assert_eq!(left, ["1.36.3"]);
    }

    #[test]
    fn upgrade_goes_on_until_its_rollback_replaces_something() {
        let (from, to) = (Version::new(1, 35, 4), Version::new(1, 36, 3));
        let mut record = UpgradeRecord::new(&from, &to);
        let mut at = |stage| {
            record.rollback = Some(RollbackRecord::new(&from, stage));
            record.check(&to)
        };
        at(RollbackStage::Seed).unwrap();
        at(RollbackStage::Prepare).unwrap();
        for stage in [
            RollbackStage::InPlace,
            RollbackStage::Replace,
            RollbackStage::Tidy,
        ] {
            let refused = at(stage).unwrap_err().to_string();
            assert!(refused.starts_with("a rollback to Kubernetes 1.35.4 has begun"));
        }
    }

    #[test]
    fn upgrade_that_has_begun_must_end_before_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        let load = || UpgradeRecord::load(folder.path()).unwrap();
        assert_eq!(load(), None);
        let (from, to) = (Version::new(1, 35, 4), Version::new(1, 36, 3));
        let record = UpgradeRecord::new(&from, &to);
        record.save(state).unwrap();
        assert_eq!(load(), Some(record.clone()));
        record.check(&to).unwrap();
        let refused = record.check(&Version::new(1, 36, 4)).unwrap_err();
        assert!(
            refused.to_string().contains("to 1.36.3 has begun"),
            "{refused}"
        );
        UpgradeRecord::remove(state).unwrap();
        UpgradeRecord::remove(state).unwrap();
        assert_eq!(load(), None);
    }
}

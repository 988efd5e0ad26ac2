//! `backup list`.

use std::path::PathBuf;

use serde::Serialize;

use super::directory::{self, StoredBackup};
use super::identity::BackupIdentity;
use super::{Manifest, file};
use kubexm_session::{CommandError, background};
use kubexm_types::Message;

/// Which backups to list.
#[derive(Debug, Clone)]
pub struct ListOptions {
    /// The directory.
    pub folder: PathBuf,
    /// The cluster; `None` for all.
    pub cluster: Option<String>,
    /// Who reads the manifests; `None` for names and sizes only.
    pub identity: Option<BackupIdentity>,
}

/// The backups of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BackupList {
    /// The newest first.
    pub backups: Vec<ListedBackup>,
}

/// A backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedBackup {
    #[serde(flatten)]
    pub file: StoredBackup,
    /// What it contains; `None` without an identity, or if the identity cannot read it.
    pub manifest: Option<Manifest>,
    /// Why its manifest cannot be read.
    pub problem: Option<String>,
}

/// Lists the backups of a directory.
///
/// # Errors
/// The directory cannot be read, or the identity is not one.
pub async fn list(options: &ListOptions) -> Result<BackupList, CommandError> {
    let identity = options.identity.as_ref().map(BackupIdentity::parsed);
    let identity = identity.transpose()?;
    let options = options.clone();
    background::run(move || {
        let stored = directory::stored(&options.folder, options.cluster.as_deref())?;
        let listed = stored.into_iter().map(|stored| {
            let manifest = identity
                .as_ref()
                .map(|identity| file::manifest(&stored.path, identity));
            let (manifest, problem) = match manifest {
                None => (None, None),
                Some(Ok(manifest)) => (Some(manifest), None),
                Some(Err(error)) => (None, Some(Message::from(&error).text)),
            };
            ListedBackup {
                file: stored,
                manifest,
                problem,
            }
        });
        Ok(BackupList {
            backups: listed.collect(),
        })
    })
    .await
}

//! `backup verify`: reads a whole backup, and restores its snapshot into a temporary directory.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::file;
use super::identity::BackupIdentity;
use super::manifest::{Manifest, SNAPSHOT, program};
use super::members::SnapshotStatus;
use crate::stop::unless_stopped;
use crate::{CommandError, FileError, Stop, background};
use kubexm_sandbox::{ProgramRun, Sandbox, SandboxError, Workspace};
use kubexm_types::{Arch, Untrusted};

/// How long etcdutl may take for a snapshot.
const LIMIT: Duration = Duration::from_secs(900);

/// Which backup to verify.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    pub backup: PathBuf,
    pub identity: BackupIdentity,
    /// How etcdutl of the backup runs.
    pub sandbox: Sandbox,
}

/// A backup that was verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    pub backup: PathBuf,
    pub manifest: Manifest,
    /// What the trial restore found; `None` if the backup has no etcdutl for this machine.
    pub trial: Option<Trial>,
}

/// A trial restore.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trial {
    /// The revision that etcdutl reads in the snapshot.
    pub revision: u64,
    /// The hash that etcdutl computes.
    pub hash: u64,
}

/// Reads the whole backup, compares all digests, and restores the snapshot into a temporary directory with the program
/// etcdutl of the backup.
///
/// # Errors
/// The backup cannot be decrypted, is damaged, or its snapshot cannot be restored.
pub async fn verify(options: &VerifyOptions, stop: &Stop) -> Result<VerifyReport, CommandError> {
    unless_stopped(stop, verified(options)).await
}

async fn verified(options: &VerifyOptions) -> Result<VerifyReport, CommandError> {
    let identity = options.identity.parsed()?;
    let path = options.backup.clone();
    let wanted = Arch::of_this_machine().map(program).unwrap_or_default();
    let workspace = Workspace::create("kubexm-backup-")
        .map_err(|error| no_directory(&std::env::temp_dir(), &error))?;
    let (inputs, own) = (workspace.inputs(), wanted.clone());
    let manifest = background::run(move || {
        file::read(&path, &identity, |name, content| {
            if name == SNAPSHOT {
                copy(content, &inputs.join("snapshot.db"))?;
            } else if name == own {
                copy(content, &inputs.join("etcdutl"))?;
            }
            Ok(())
        })
    })
    .await?;
    let trial = match manifest.file(&wanted) {
        None => None,
        Some(_) => Some(try_restore(options, &workspace, &manifest).await?),
    };
    Ok(VerifyReport {
        backup: options.backup.clone(),
        manifest,
        trial,
    })
}

fn no_directory(folder: &std::path::Path, error: &io::Error) -> FileError {
    FileError::io("create a temporary directory in", folder, error)
}

fn copy(content: &mut dyn Read, to: &std::path::Path) -> io::Result<()> {
    io::copy(content, &mut File::create(to)?).map(|_| ())
}

async fn try_restore(
    options: &VerifyOptions,
    workspace: &Workspace,
    manifest: &Manifest,
) -> Result<Trial, CommandError> {
    let refused = |cause: String| {
        let error = FileError::new("restore the snapshot of the backup", &options.backup, cause);
        CommandError::from(error.hint("use another backup, and create a new one"))
    };
    let prepared = |error: io::Error| refused(error.to_string());
    let inputs = workspace.inputs();
    let (snapshot, etcdutl) = (inputs.join("snapshot.db"), inputs.join("etcdutl"));
    workspace.permit(&snapshot, 0o644).map_err(prepared)?;
    workspace.permit(&etcdutl, 0o755).map_err(prepared)?;
    let mut run = ProgramRun::new(workspace, etcdutl).map_err(prepared)?;
    run.limit = LIMIT;
    let output = async |arguments: &[&str]| {
        let mut run = run.clone();
        run.arguments = arguments.iter().map(|text| (*text).to_owned()).collect();
        let ended = run.output(&options.sandbox).await;
        let ended = ended.map_err(|error| match error {
            SandboxError::Unavailable(_) => CommandError::Configuration(error.to_string()),
            _ => refused(error.to_string()),
        })?;
        match ended.is_success {
            true => Ok(ended.stdout),
            false => {
                let said = String::from_utf8_lossy(&ended.stderr).into_owned();
                Err(refused(format!("etcdutl: {}", Untrusted::last(&said))))
            }
        }
    };
    let file = snapshot.display().to_string();
    let found = output(&["snapshot", "status", &file, "-w", "json"]).await?;
    let wrong =
        |error: serde_json::Error| refused(format!("unexpected answer of etcdutl: {error}"));
    let found: SnapshotStatus = serde_json::from_slice(&found).map_err(wrong)?;
    let (revision, hash) = (manifest.etcd.revision, manifest.etcd.hash);
    if (found.revision, found.hash) != (revision, hash) {
        return Err(refused(format!(
            "it has the revision {} and the hash {:x} instead of {revision} and {hash:x}",
            found.revision, found.hash
        )));
    }
    let data = run.scratch.join("data").display().to_string();
    output(&["snapshot", "restore", &file, "--data-dir", &data]).await?;
    let restored = format!("{data}/member/snap/db");
    let restored = output(&["snapshot", "status", &restored, "-w", "json"]).await?;
    let restored: SnapshotStatus = serde_json::from_slice(&restored).map_err(wrong)?;
    if restored.revision != revision {
        return Err(refused(format!(
            "the restored data ends at the revision {} instead of {revision}",
            restored.revision
        )));
    }
    Ok(Trial {
        revision: found.revision,
        hash: found.hash,
    })
}

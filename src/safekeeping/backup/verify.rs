//! `backup verify`: reads a whole backup, and restores its snapshot into a temporary directory.

mod space;
mod trial;

use std::io::Read;
use std::path::PathBuf;

use serde::Serialize;

use self::trial::TrialRestore;
use super::authorities::Authorities;
use super::file;
use super::identity::BackupIdentity;
use super::manifest::{Manifest, SNAPSHOT, program};
use super::origin::{Evidence, Origin};
use kubexm_sandbox::{Sandbox, Workspace};
use kubexm_session::stop::unless_stopped;
use kubexm_session::{CommandError, FileError, Stop, background};
use kubexm_types::Arch;

/// What to do about authorities that are not those of the cluster.
const FOREIGN: &str = "the host or the backup was changed, or a newer kubexm wrote it: compare the file with that of the other control \
                       planes, and use another backup";
/// What to do about a backup that another key has signed, or none.
const UNKNOWN: &str = "pass backup-signing.pub of the state directory that made it, or leave out --trust: then its etcdutl does not run";
/// The names of temporary directories start with this.
const PREFIX: &str = "kubexm-backup-";

/// Which backup to verify.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    pub backup: PathBuf,
    pub identity: BackupIdentity,
    /// The public key of the state directory that must have made the backup; `None` if that does not matter.
    pub trust: Option<PathBuf>,
    /// How etcdutl of the backup runs.
    pub sandbox: Sandbox,
}

/// A backup that was verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    pub backup: PathBuf,
    pub manifest: Manifest,
    /// Whether the key that the user passed verifies the manifest; `false` without a key.
    #[serde(rename = "originVerified")]
    pub is_origin_verified: bool,
    /// What the trial restore found; `None` if the origin is not verified, or the backup has no etcdutl for this machine.
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

/// Reads the whole backup, and compares all digests. If its origin is verified, also restores the snapshot into a temporary directory
/// with the program etcdutl of the backup.
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
    // This deletes what a killed run has left, too: a snapshot, with all Secrets in clear text.
    let workspace = Workspace::create(PREFIX).map_err(|error| {
        FileError::io(
            "create a temporary directory in",
            &std::env::temp_dir(),
            &error,
        )
    })?;
    let (inputs, own) = (workspace.inputs(), wanted.clone());
    let trust = options.trust.clone();
    // The program of an unknown author does not run here.
    let is_trusted = trust.is_some();
    let (manifest, authorities) = background::run(move || {
        let mut authorities = Authorities::default();
        let decide = |_: &Manifest, evidence: &Evidence| {
            let origin = trust.map(|key| evidence.origin(&path, &key)).transpose()?;
            match origin {
                Some(Origin::Unknown(why)) => {
                    let error = FileError::new("verify the backup", &path, why);
                    Err(error.hint(UNKNOWN).into())
                }
                Some(Origin::Own) | None => Ok(()),
            }
        };
        let visit = |manifest: &Manifest, name: &str, content: &mut dyn Read| {
            // Nothing else can read the snapshot.
            let has_program = is_trusted && manifest.file(&own).is_some();
            let needed = space::of_trial(manifest);
            if name == SNAPSHOT && has_program {
                space::check(&inputs, needed)?;
                space::copy(content, &inputs.join(trial::SNAPSHOT), needed)?;
            } else if name == own && has_program {
                space::copy(content, &inputs.join(trial::PROGRAM), needed)?;
            } else {
                authorities.add(manifest, name, content)?;
            }
            Ok(())
        };
        let (manifest, ()) = file::read(&path, &identity, decide, visit)?;
        Ok::<_, CommandError>((manifest, authorities))
    })
    .await?;
    let problems = authorities.problems();
    if !problems.is_empty() {
        let cause = problems.join("; ");
        let error = FileError::new("verify the backup", &options.backup, cause);
        return Err(error.hint(FOREIGN).into());
    }
    let trial = match manifest.file(&wanted).filter(|_| is_trusted) {
        None => None,
        Some(_) => {
            let trial = TrialRestore::prepare(options, &workspace, &manifest)?;
            Some(trial.run().await?)
        }
    };
    Ok(VerifyReport {
        backup: options.backup.clone(),
        manifest,
        is_origin_verified: options.trust.is_some(),
        trial,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::file::tests::{example, write};
    use super::*;
    use kubexm_pki::KeyIdentity;
    use kubexm_types::Secret;

    /// The options for a backup with the passphrase `open sesame`.
    fn without_trust(backup: PathBuf) -> VerifyOptions {
        VerifyOptions {
            backup,
            identity: BackupIdentity::Passphrase(Secret("open sesame".into())),
            trust: None,
            sandbox: Sandbox::Off,
        }
    }

    #[tokio::test]
    async fn snapshots_of_killed_runs_are_removed() {
        let left = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(PermissionsExt::from_mode(0o700))
            .tempdir()
            .unwrap();
        std::fs::write(left.path().join("lock"), "").unwrap();
        std::fs::write(left.path().join("snapshot.db"), "secret").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let backup = folder.path().join("backup");
        let identity = KeyIdentity::of_passphrase("open sesame");
        let manifest = example(&[]);
        write(&backup, &identity.into(), &manifest, &[]);
        let options = without_trust(backup);
        let report = verified(&options).await.unwrap();
        assert_eq!((report.manifest, report.trial), (manifest, None));
        assert!(!left.path().exists());
        let trust = Some(folder.path().join("backup-signing.pub"));
        let error = verified(&VerifyOptions { trust, ..options }).await;
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("backup-signing.pub does not exist")
                && error.contains("\nhint: pass backup-signing.pub"),
            "{error}"
        );
    }

    /// The sandbox was off, or had a gap: a program of the owner of the storage ran.
    #[tokio::test]
    async fn program_of_an_unknown_author_does_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let (backup, ran) = (folder.path().join("backup"), folder.path().join("ran"));
        let identity = KeyIdentity::of_passphrase("open sesame");
        let program = program(Arch::of_this_machine().unwrap());
        let text = format!("#!/bin/sh\ntouch {}\nexit 1\n", ran.display());
        let files = [
            (program.as_str(), text.into_bytes()),
            (SNAPSHOT, b"snapshot".to_vec()),
        ];
        write(&backup, &identity.into(), &example(&files), &files);
        let options = without_trust(backup);
        let report = verified(&options).await.unwrap();
        assert!(report.trial.is_none() && !report.is_origin_verified);
        assert!(!ran.exists());
    }
}

//! The trial restore of a snapshot, with the program etcdutl of the backup.

use std::io;
use std::time::Duration;

use super::{Trial, VerifyOptions, space};
use crate::backup::manifest::Manifest;
use kubexm_etcd::SnapshotStatus;
use kubexm_sandbox::{ProgramRun, SandboxError, Workspace};
use kubexm_session::{CommandError, FileError};
use kubexm_types::{Message, Untrusted};

/// How long etcdutl may take for a snapshot.
const LIMIT: Duration = Duration::from_secs(900);
/// What a file of etcdutl can have more than the snapshot, in bytes.
const MORE: u64 = 256 << 20;
const ACTION: &str = "restore the snapshot of the backup";

/// The name of the snapshot among the inputs.
pub(super) const SNAPSHOT: &str = "snapshot.db";
/// The name of etcdutl among the inputs.
pub(super) const PROGRAM: &str = "etcdutl";

/// A trial restore that has its files.
pub(super) struct TrialRestore<'a> {
    options: &'a VerifyOptions,
    manifest: &'a Manifest,
    run: ProgramRun,
    /// The path of the snapshot.
    snapshot: String,
}

impl<'a> TrialRestore<'a> {
    /// Prepares the snapshot and etcdutl, which are among the inputs.
    ///
    /// # Errors
    /// The file system refuses it.
    pub(super) fn prepare(
        options: &'a VerifyOptions,
        workspace: &Workspace,
        manifest: &'a Manifest,
    ) -> Result<Self, CommandError> {
        let inputs = workspace.inputs();
        let (snapshot, etcdutl) = (inputs.join(SNAPSHOT), inputs.join(PROGRAM));
        let failed = |error: io::Error| {
            let error = FileError::io("prepare a trial restore in", &inputs, &error);
            error.hint(space::hint(space::of_trial(manifest)))
        };
        workspace.permit(&snapshot, 0o644).map_err(failed)?;
        workspace.permit(&etcdutl, 0o755).map_err(failed)?;
        let mut run = ProgramRun::new(workspace, etcdutl).map_err(failed)?;
        run.limit = LIMIT;
        run.largest_file = manifest.snapshot_size().saturating_add(MORE);
        Ok(Self {
            options,
            manifest,
            run,
            snapshot: snapshot.display().to_string(),
        })
    }

    /// Compares the snapshot with the manifest, restores it, and compares the result.
    ///
    /// # Errors
    /// etcdutl cannot run, or the snapshot is not the one of the manifest.
    pub(super) async fn run(&self) -> Result<Trial, CommandError> {
        let found = self.status(&self.snapshot).await?;
        let (revision, hash) = (self.manifest.etcd.revision, self.manifest.etcd.hash);
        if (found.revision, found.hash) != (revision, hash) {
            return Err(self.refused(format!(
                "it has the revision {} and the hash {:x} instead of {revision} and {hash:x}",
                found.revision, found.hash
            )));
        }
        let data = self.run.scratch.join("data").display().to_string();
        let restore = ["snapshot", "restore", &self.snapshot, "--data-dir", &data];
        self.output(&restore).await?;
        let restored = self.status(&format!("{data}/member/snap/db")).await?;
        if restored.revision != revision {
            return Err(self.refused(format!(
                "the restored data ends at the revision {} instead of {revision}",
                restored.revision
            )));
        }
        Ok(Trial {
            revision: found.revision,
            hash: found.hash,
        })
    }

    async fn status(&self, file: &str) -> Result<SnapshotStatus, CommandError> {
        let printed = self
            .output(&["snapshot", "status", file, "-w", "json"])
            .await?;
        SnapshotStatus::one(&printed)
            .map_err(|cause| self.refused(format!("the answer of etcdutl {cause}")))
    }

    /// Returns what etcdutl prints.
    async fn output(&self, arguments: &[&str]) -> Result<Vec<u8>, CommandError> {
        let mut run = self.run.clone();
        run.arguments = arguments.iter().map(|text| (*text).to_owned()).collect();
        let ended = run.output(&self.options.sandbox).await;
        let ended = ended.map_err(|error| self.not_ended(&error))?;
        if ended.is_success {
            Ok(ended.stdout)
        } else {
            Err(self.failed(&String::from_utf8_lossy(&ended.stderr)))
        }
    }

    fn error(&self, cause: impl std::fmt::Display, hint: impl Into<String>) -> CommandError {
        let error = FileError::new(ACTION, &self.options.backup, cause);
        error.hint(hint).into()
    }

    /// The backup is not good.
    fn refused(&self, cause: impl std::fmt::Display) -> CommandError {
        self.error(cause, "use another backup, and create a new one")
    }

    /// etcdutl did not run to its end. Only its output can be the fault of the backup.
    fn not_ended(&self, error: &SandboxError) -> CommandError {
        let hint = match error {
            SandboxError::Unavailable(_) => {
                let message = Message::new(error.to_string());
                return CommandError::machine(message.or_hint(error.hint()));
            }
            SandboxError::TooMuchOutput(_) => return self.refused(error),
            SandboxError::TimedOut(_) => {
                "the backup can be good: run the same command again when this machine has less to do, or on a faster one"
            }
            SandboxError::Start(_) => {
                "the backup can be good: set TMPDIR to a directory in which programs can run"
            }
        };
        self.error(error, hint)
    }

    /// etcdutl has ended with an error.
    fn failed(&self, said: &str) -> CommandError {
        let cause = format!("etcdutl: {}", Untrusted::last(said));
        if is_full(said) {
            self.error(cause, space::hint(space::of_trial(self.manifest)))
        } else {
            self.refused(cause)
        }
    }
}

/// Returns whether a program of Go has failed because there was no space.
fn is_full(said: &str) -> bool {
    ["no space left on device", "disk quota exceeded"]
        .iter()
        .any(|text| said.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::file::tests::example;
    use crate::backup::{BackupIdentity, Sandbox};

    /// Calls `check` with a trial restore of a snapshot of 300 MiB.
    fn with_trial(check: impl FnOnce(&TrialRestore<'_>)) {
        let options = VerifyOptions {
            backup: "x.tar.zst.age".into(),
            identity: BackupIdentity::Passphrase(kubexm_types::Secret(String::new())),
            trust: None,
            sandbox: Sandbox::Off,
        };
        let workspace = Workspace::create("kubexm-test-").unwrap();
        for name in [SNAPSHOT, PROGRAM] {
            workspace.put(name, b"").unwrap();
        }
        let mut manifest = example(&[(crate::backup::manifest::SNAPSHOT, Vec::new())]);
        manifest.files[0].size = 300 << 20;
        check(&TrialRestore::prepare(&options, &workspace, &manifest).unwrap());
    }

    #[test]
    fn faults_of_this_machine_are_not_those_of_the_backup() {
        with_trial(|trial| {
            let errors = [
                trial.not_ended(&SandboxError::TimedOut(LIMIT)),
                trial.not_ended(&SandboxError::Start(io::Error::other("no"))),
                trial.failed("Error: write /tmp/x/db: no space left on device\n"),
            ];
            let lines = errors.map(|error| error.to_string());
            insta::assert_snapshot!(lines.join("\n"), @r"
            cannot restore the snapshot of the backup x.tar.zst.age: the program did not end within 900 s and was killed
            hint: the backup can be good: run the same command again when this machine has less to do, or on a faster one
            cannot restore the snapshot of the backup x.tar.zst.age: cannot start the program: no
            hint: the backup can be good: set TMPDIR to a directory in which programs can run
            cannot restore the snapshot of the backup x.tar.zst.age: etcdutl: Error: write /tmp/x/db: no space left on device
            hint: set TMPDIR to a directory with 1028 MiB of free space, and run the same command again
            ");
        });
    }

    #[test]
    fn faults_of_the_backup_are_named() {
        with_trial(|trial| {
            let errors = [
                trial.not_ended(&SandboxError::TooMuchOutput(1)),
                trial.failed("Error: expected sha256 [1], got [2]\n"),
            ];
            for error in errors {
                let error = error.to_string();
                assert!(error.contains("\nhint: use another backup"), "{error}");
            }
        });
    }

    #[test]
    fn snapshots_can_be_larger_than_other_files_of_programs() {
        with_trial(|trial| assert_eq!(trial.run.largest_file, 556 << 20));
    }
}

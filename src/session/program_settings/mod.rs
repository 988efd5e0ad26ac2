//! Whether the programs of a bundle accept what a cluster file gives them: flags, feature gates and configurations. The
//! programs run on this machine, in a sandbox, and end before they do anything.
//!
//! A flag that a program does not know ends it on each host. Kubernetes removes flags and feature gates with minor versions.

mod answer;
pub mod findings;
mod given;
pub mod live;
mod refusal;
pub mod unpack;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;

use crate::CommandError;
use given::Given;
use kubexm_bundle::{Blobs, BundleSet, Lock};
use kubexm_config::Cluster;
use kubexm_fetch::FetchError;
use kubexm_sandbox::{ProgramRun, Sandbox, Workspace};
use kubexm_types::{Arch, Message, disk_failure};
pub use refusal::Refusal;

/// The note where no program can run.
pub const OTHER_ARCHITECTURE: &str = "the flags and feature gates of the cluster file are not checked: the bundle has no programs for this machine";

/// After this time a program has parsed its arguments and its configuration.
const LIMIT: Duration = Duration::from_secs(30);

/// A bundle whose programs can run here.
pub struct Programs<'a> {
    pub lock: &'a Lock,
    pub blobs: Arc<dyn Blobs>,
    pub sandbox: Sandbox,
}

impl<'a> Programs<'a> {
    /// Returns the programs of a bundle, isolated.
    pub fn of(bundle: &'a Arc<BundleSet>) -> Self {
        Self {
            lock: bundle.lock(),
            blobs: Arc::clone(bundle) as _,
            sandbox: Sandbox::default(),
        }
    }
}

impl Programs<'_> {
    /// Returns what the programs refuse; `None` if the bundle has no programs for the architecture of this machine.
    ///
    /// # Errors
    /// A program of the bundle cannot be read or run.
    pub async fn refusals(&self, cluster: &Cluster) -> Result<Option<Vec<Refusal>>, CommandError> {
        let given = given::by_cluster(cluster, self.lock, &self.blobs)?;
        if given.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let here = Arch::of_this_machine().ok();
        let Some(arch) = here.filter(|arch| self.lock.architectures.contains(arch)) else {
            return Ok(None);
        };
        let asked = given.iter().map(|given| self.ask(cluster, given, arch));
        Ok(Some(try_join_all(asked).await?.concat()))
    }

    /// Returns what one program refuses. A program that the bundle does not have refuses nothing.
    async fn ask(
        &self,
        cluster: &Cluster,
        given: &Given,
        arch: Arch,
    ) -> Result<Vec<Refusal>, CommandError> {
        let Some((workspace, path)) = self.unpacked(cluster, given, arch).await? else {
            return Ok(Vec::new());
        };
        let mut refused = Vec::new();
        for (field, flag) in &given.flags {
            let arguments = vec![flag.clone(), format!("--{}", answer::LAST)];
            let said = self.run(given, &workspace, &path, arguments).await?;
            if let Some(reason) = answer::to_flags(&said) {
                refused.push(given.refusal(&cluster.kubernetes.version, field, &reason));
            }
        }
        for (field, gates) in &given.gates {
            let said = self
                .run(given, &workspace, &path, vec![gates.clone()])
                .await?;
            if let Some(reason) = answer::to_settings(&said) {
                refused.push(given.refusal(&cluster.kubernetes.version, field, &reason));
            }
        }
        for (number, text) in given.configs.iter().enumerate() {
            let file = workspace.put(&format!("config-{number}.yaml"), text.as_bytes());
            let file = file.map_err(|error| failed(given, error))?;
            let arguments = live::decoding(given.program, &file);
            let said = self.run(given, &workspace, &path, arguments).await?;
            if let Some(reason) = answer::to_settings(&said) {
                let field = given.config_field();
                let refusal = given.refusal(&cluster.kubernetes.version, &field, &reason);
                // Both commands of kubeadm have the same documents.
                if !refused.contains(&refusal) {
                    refused.push(refusal);
                }
            }
        }
        Ok(refused)
    }

    /// Takes a program out of the bundle, into a directory of its own; `None` if the bundle does not have it.
    async fn unpacked(
        &self,
        cluster: &Cluster,
        given: &Given,
        arch: Arch,
    ) -> Result<Option<(Workspace, PathBuf)>, CommandError> {
        let workspace =
            Workspace::create("kubexm-program-").map_err(|error| failed(given, error))?;
        let Some(source) =
            unpack::find(self.lock, given.program, &cluster.kubernetes.version, arch)
        else {
            return Ok(None);
        };
        let path = workspace.inputs().join(given.program);
        let (blobs, target) = (Arc::clone(&self.blobs), path.clone());
        let program = given.program;
        let unpacked = tokio::task::spawn_blocking(move || {
            unpack::unpack(&source, program, blobs.as_ref(), &target)
        });
        let unpacked = unpacked
            .await
            .map_err(|error| failed(given, std::io::Error::other(error)))?;
        unpacked.map_err(|error| failed(given, error))?;
        Ok(Some((workspace, path)))
    }

    /// Runs a program. Returns what it printed. Each of these runs ends with an error of the program.
    async fn run(
        &self,
        given: &Given,
        workspace: &Workspace,
        program: &Path,
        arguments: Vec<String>,
    ) -> Result<String, CommandError> {
        let run = ProgramRun::new(workspace, program.to_owned());
        let mut run = run.map_err(|error| failed(given, error))?;
        run.arguments = arguments;
        run.limit = LIMIT;
        let output = run.output(&self.sandbox).await;
        let output = output.map_err(|source| FetchError::Program {
            what: given.program.to_owned(),
            source,
        })?;
        let said = [output.stdout, output.stderr].concat();
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}

fn failed(given: &Given, error: std::io::Error) -> CommandError {
    let message = Message::new(format!(
        "cannot run {} of the bundle in {}, to check its settings: {error}",
        given.program,
        std::env::temp_dir().display()
    ));
    CommandError::machine(message.or_hint(disk_failure::hint(&error)))
}

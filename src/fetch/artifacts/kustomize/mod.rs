//! Rendering of kustomizations by the kubectl of a bundle, or by that of this machine, in a sandbox
//! (<https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/>).

mod tree;

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::images::LARGEST_MANIFEST;
use super::unpacked::{Unpacked, or_of_machine};
use crate::FetchError;
use crate::error::wrong;
use kubexm_bundle::Blobs;
use kubexm_bundle::lock::LockedFile;
use kubexm_sandbox::{ProgramRun, Sandbox, SandboxError, Workspace};
use kubexm_types::artifact::{ArtifactKind, ArtifactLocation, ArtifactSource};
use kubexm_types::{Message, Untrusted};
use tree::Tree;
pub use tree::has_kustomization;

/// Timeout for rendering a kustomization, which takes seconds.
const LONGEST: Duration = Duration::from_secs(120);

/// The component with kustomize.
pub const COMPONENT: &str = "kubectl";

/// Returns whether a source is the directory of a kustomization.
pub fn is_kustomization(source: &ArtifactSource) -> bool {
    let is_manifest = source.kind == ArtifactKind::Manifest;
    let path = match &source.location {
        ArtifactLocation::Path(path) => Some(path),
        _ => None,
    };
    path.is_some_and(|path| is_manifest && path.is_dir())
}

/// The kubectl of a bundle.
pub struct Kubectl(Unpacked);

impl Kubectl {
    /// Copies the newest kubectl among files of a lock that runs on this machine; `None` if there is none.
    ///
    /// # Errors
    /// The program cannot be read, or a temporary file cannot be written.
    pub fn unpack(blobs: &dyn Blobs, files: &[LockedFile]) -> Result<Option<Self>, FetchError> {
        let Some(file) = Unpacked::newest(COMPONENT, files) else {
            return Ok(None);
        };
        let unpacked = Unpacked::create(COMPONENT, |program| {
            let mut content = blobs.open(&file.digest).map_err(io::Error::other)?;
            io::copy(&mut content, &mut File::create(program)?).map(drop)
        });
        Ok(Some(Self(unpacked?)))
    }
}

/// Renders the kustomization of a directory. Without a kubectl of the bundle, that of this machine renders it.
///
/// # Errors
/// The kustomization needs something that is not on this machine, neither kubectl is there, kubectl fails, or it cannot be
/// isolated.
pub async fn render(
    folder: &Path,
    kubectl: Option<&Kubectl>,
    sandbox: &Sandbox,
) -> Result<Vec<u8>, FetchError> {
    let tree = Tree::of(folder)?;
    let unpacked = kubectl.map(|kubectl| &kubectl.0);
    let program = or_of_machine(unpacked, COMPONENT).ok_or_else(|| no_kubectl(folder))?;
    let failed = |error: io::Error| wrong(&folder.display(), error.to_string());
    let workspace = Workspace::create("kubexm-kustomize-").map_err(failed)?;
    let copy = tree.copy(&workspace)?;
    let mut run = ProgramRun::new(&workspace, program.clone()).map_err(failed)?;
    run.arguments = vec!["kustomize".to_owned(), copy.display().to_string()];
    run.readable = vec![program];
    run.limit = LONGEST;
    run.largest_output = LARGEST_MANIFEST;
    let output = run.output(sandbox).await.map_err(|error| match error {
        SandboxError::Start(_) | SandboxError::Unavailable(_) => FetchError::Program {
            what: COMPONENT.to_owned(),
            source: error,
        },
        other => wrong(
            &folder.display(),
            format!("kubectl kustomize did not finish ({other})"),
        ),
    })?;
    if output.is_success {
        return Ok(output.stdout);
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let text = tree.with_own_paths(&text, &workspace);
    let words: Vec<&str> = text.split_whitespace().collect();
    let message = Untrusted::one_line(&words.join(" "), 600).to_string();
    Err(wrong(
        &folder.display(),
        format!("kubectl kustomize failed ({message})"),
    ))
}

fn no_kubectl(folder: &Path) -> FetchError {
    let reason = "is a kustomization, and neither the bundle has kubectl for this machine, nor is kubectl installed";
    wrong(
        &folder.display(),
        Message::new(reason).hint(
            "add the version of kubectl to spec.components, as in kubectl: \"1.36.3\"; spec.kubernetes includes it",
        ),
    )
}

#[cfg(test)]
mod tests;

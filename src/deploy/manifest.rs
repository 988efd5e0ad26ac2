//! Manifests: Kubernetes objects of the bundle, and those that kubexm applies from a file on the first control plane.

use std::io::Read;

use crate::{DeployError, ETC, Inputs};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{RunScript, WriteFile};
use kubexm_render::RenderError;
use kubexm_scripts::kubernetes::MANIFEST;
use kubexm_types::{Digest, HostPath};

/// Maximum size of a manifest, in bytes. Calico's has about 350 kB.
const LARGEST: u64 = 16 * 1024 * 1024;

/// Returns a step that applies the manifest at `path` if the cluster differs from it.
pub(super) fn apply(id: &str, title: impl Into<String>, path: &str) -> RunScript {
    let (check, apply) = (MANIFEST.verb("check"), MANIFEST.verb("apply"));
    RunScript::new(id, title, check, apply).arguments([path])
}

/// Adds steps that write a manifest below `/etc/kubexm` and apply it if the cluster differs from it.
///
/// # Errors
/// The name is not that of a file.
pub(super) fn written(
    task: Task,
    name: &str,
    title: impl Into<String>,
    text: String,
) -> Result<Task, DeployError> {
    let path = HostPath::parse(&format!("{ETC}/{name}.yaml"))?;
    Ok(task
        .step(WriteFile::new(path.clone(), text))
        .step(apply(name, title, path.as_str())))
}

/// Reads a manifest from the bundle.
///
/// # Errors
/// The bundle cannot be read, or the manifest is not UTF-8.
pub(super) fn of_bundle(
    inputs: &Inputs<'_>,
    what: &'static str,
    digest: &Digest,
) -> Result<String, RenderError> {
    let blob = inputs.blobs.open(digest);
    let blob = blob.map_err(|error| RenderError::new(what, error))?;
    let mut text = String::new();
    let read = blob.take(LARGEST + 1).read_to_string(&mut text);
    let read = read.map_err(|error| RenderError::new(what, error))?;
    // Only the end of the blob has verified it.
    if read as u64 > LARGEST {
        return Err(RenderError::new(what, "it is larger than 16 MiB"));
    }
    Ok(text)
}

//! Kubernetes objects that kubexm applies from a file on the first control plane.

use kubexm_engine::steps::RunScript;
use kubexm_scripts::kubernetes::MANIFEST;

/// Returns a step that applies the manifest at `path` if the cluster differs from it.
pub(super) fn apply(id: &str, title: impl Into<String>, path: &str) -> RunScript {
    let (check, apply) = (MANIFEST.verb("check"), MANIFEST.verb("apply"));
    RunScript::new(id, title, check, apply).arguments([path])
}

//! Objects of the cluster that kubexm applies from a file on the first control plane.

use super::KUBECTL;
use kubexm_engine::steps::RunScript;

/// Who the fields of these objects belong to, by server-side apply
/// (<https://kubernetes.io/docs/reference/using-api/server-side-apply/>): it stores no copy of a
/// manifest in an annotation, which large ones would not fit in.
const SERVER_SIDE: &str = "--server-side --force-conflicts --field-manager=kubexm";

/// Has the cluster hold what the manifest at `path` on the host says.
pub(super) fn apply(id: &str, title: impl Into<String>, path: &str) -> RunScript {
    let check = format!(
        "{KUBECTL} diff {SERVER_SIDE} -f \"$1\" >/dev/null 2>&1 || {{ echo differs; exit 1; }}"
    );
    let apply = format!("{KUBECTL} apply {SERVER_SIDE} -f \"$1\" >/dev/null");
    RunScript::new(id, title, &check, &apply).arguments([path])
}

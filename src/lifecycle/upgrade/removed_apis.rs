//! API versions of built-in kinds that Kubernetes has stopped to serve
//! (<https://kubernetes.io/docs/reference/using-api/deprecation-guide/>), since the oldest version that kubexm installs.

/// An API version that Kubernetes does not serve for some kinds any more.
struct Removed {
    /// The first minor version of Kubernetes without it.
    minor: u64,
    api_version: &'static str,
    kinds: &'static [&'static str],
    /// The API version with these kinds that replaces it.
    replacement: &'static str,
}

const FLOWS: &[&str] = &["FlowSchema", "PriorityLevelConfiguration"];
const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io/v1";

/// The removals from Kubernetes 1.29 to 1.36 of APIs that are on by default.
const REMOVED: &[Removed] = &[
    Removed {
        minor: 29,
        api_version: "flowcontrol.apiserver.k8s.io/v1beta2",
        kinds: FLOWS,
        replacement: FLOW_CONTROL,
    },
    Removed {
        minor: 32,
        api_version: "flowcontrol.apiserver.k8s.io/v1beta3",
        kinds: FLOWS,
        replacement: FLOW_CONTROL,
    },
];

fn until(minor: u64) -> impl Iterator<Item = &'static Removed> {
    REMOVED.iter().filter(move |one| one.minor <= minor)
}

/// Returns what replaces the API version of a kind that a minor version of Kubernetes does not serve, and an earlier one does;
/// `None` if it is not known as removed.
pub(super) fn replacement(
    (from, to): (u64, u64),
    api_version: &str,
    kind: &str,
) -> Option<&'static str> {
    let mut all = until(to).filter(|one| one.minor > from);
    let found = all.find(|one| one.api_version == api_version && one.kinds.contains(&kind));
    found.map(|one| one.replacement)
}

/// Returns whether a minor version of Kubernetes does not serve an API version for a kind, or for some kinds.
pub(super) fn is_removed(minor: u64, api_version: &str, kind: Option<&str>) -> bool {
    until(minor).any(|one| {
        one.api_version == api_version && kind.is_none_or(|kind| one.kinds.contains(&kind))
    })
}

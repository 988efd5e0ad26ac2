//! How far the versions of programs of a cluster may differ
//! (<https://kubernetes.io/releases/version-skew-policy/>).

use kubexm_types::Version;

/// How many minor versions older than the API server a kubelet may be, since 1.25.
pub const KUBELET_BEHIND: u64 = 3;

/// Returns whether a version is older than another one by more than `minors`.
pub fn is_behind(version: &Version, other: &Version, minors: u64) -> bool {
    version.major() < other.major() || version.minor() + minors < other.minor()
}

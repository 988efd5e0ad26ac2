//! Which etcd can read the data of another one, and how versions follow each other
//! (<https://etcd.io/docs/latest/upgrades/>).

use kubexm_types::Version;

/// The first patch versions from which a member can go to the next minor version. Older ones can bring learners and removed
/// members back (<https://etcd.io/blog/2025/upgrade_from_3.5_to_3.6_issue_followup/>).
const SAFE: [(Version, &str); 2] = [
    (
        Version::new(3, 5, 26),
        "an older one can bring removed members and learners back",
    ),
    (Version::new(3, 6, 11), "etcd 3.7 requires it"),
];

/// Returns whether one etcd cannot read the data of another one.
pub fn is_older(one: &Version, other: &Version) -> bool {
    one.major_minor() < other.major_minor()
}

/// Why a member cannot go from one version to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The new version cannot read the data of the present one.
    Older,
    /// A minor version is left out.
    SkipsMinor,
    /// The present patch version is older than the first one from which the way is safe.
    Unsafe {
        /// The first safe patch version.
        from: Version,
        /// Why an older one is not.
        why: &'static str,
    },
}

/// Returns why a member cannot go from one version to another; `None` if it can.
pub fn refusal(from: &Version, to: &Version) -> Option<Refusal> {
    let minor = Version::major_minor;
    if is_older(to, from) {
        return Some(Refusal::Older);
    }
    if minor(to) == minor(from) {
        return None;
    }
    if from.major() != to.major() || to.minor() > from.minor() + 1 {
        return Some(Refusal::SkipsMinor);
    }
    let (safe, why) = SAFE
        .into_iter()
        .find(|(safe, _)| minor(safe) == minor(from))?;
    (*from < safe).then_some(Refusal::Unsafe { from: safe, why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_minor_version_begins_at_a_safe_patch_version() {
        let of = |from: &str, to: &str| refusal(&from.parse().unwrap(), &to.parse().unwrap());
        let safe_from = |found: Option<Refusal>| match found {
            Some(Refusal::Unsafe { from, .. }) => from.to_string(),
            other => format!("{other:?}"),
        };
        assert_eq!(of("3.5.26", "3.6.8"), None);
        assert_eq!(safe_from(of("3.5.21", "3.6.8")), "3.5.26");
        assert_eq!(safe_from(of("3.6.8", "3.7.1")), "3.6.11");
        assert_eq!(of("3.6.11", "3.7.1"), None);
        assert_eq!(of("3.6.5", "3.6.8"), None);
        assert_eq!(of("3.5.33", "3.7.1"), Some(Refusal::SkipsMinor));
        assert_eq!(of("3.6.8", "3.5.33"), Some(Refusal::Older));
    }
}

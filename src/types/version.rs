//! Component versions.

use std::fmt;

use super::{InvalidValue, string_value};

/// A semantic version. `v1.36.3` and `1.36.3` are the same version; `Display` omits the `v`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(semver::Version);

impl Version {
    /// Parses `1.36.3` or `v1.36.3`, with a pre-release or build part if there is one.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let bare = text.strip_prefix('v').unwrap_or(text);
        semver::Version::parse(bare).map(Self).map_err(|_| {
            InvalidValue::new(
                "version",
                text,
                "expected major.minor.patch, for example 1.36.3",
            )
        })
    }

    /// Creates a version without a pre-release part.
    pub const fn new(major: u64, minor: u64, patch: u64) -> Self {
        Self(semver::Version::new(major, minor, patch))
    }

    /// Returns the version in the form that version requirements compare with.
    pub fn semver(&self) -> &semver::Version {
        &self.0
    }

    pub fn major(&self) -> u64 {
        self.0.major
    }

    pub fn minor(&self) -> u64 {
        self.0.minor
    }

    /// Returns major and minor, which a release line of most programs has in common.
    pub fn major_minor(&self) -> (u64, u64) {
        (self.major(), self.minor())
    }

    pub fn patch(&self) -> u64 {
        self.0.patch
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

string_value!(Version);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_v_is_optional_and_order_is_numeric() {
        let old = Version::parse("v1.9.0").unwrap();
        let new = Version::parse("1.36.3").unwrap();
        assert!(old < new);
        assert_eq!(new.to_string(), "1.36.3");
        assert!(Version::parse("1.36").is_err());
    }
}

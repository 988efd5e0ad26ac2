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

    /// Returns the first version in what a program of Kubernetes prints about itself, as in `Kubernetes v1.36.3`, or in the name
    /// of an image; `None` without one.
    pub fn printed(text: &str) -> Option<Self> {
        let mut words = text.split(|c: char| c.is_whitespace() || matches!(c, '"' | '@'));
        words.find_map(|word| Self::parse(word.rsplit(':').next()?).ok())
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

    #[test]
    fn version_of_a_program_or_an_image_is_found() {
        let found = |text| Version::printed(text).map(|version| version.to_string());
        for text in [
            "v1.36.3",
            "Kubernetes v1.36.3",
            "    image: registry.k8s.io/kube-proxy:v1.36.3@sha256:0123",
            "    image: \"192.0.2.1:5000/kube-proxy:v1.36.3\"",
        ] {
            assert_eq!(found(text).as_deref(), Some("1.36.3"), "{text}");
        }
        assert_eq!(
            found("    image: 192.0.2.1:5000/kube-proxy@sha256:0123"),
            None
        );
    }
}

//! A package as a repository describes it.

use super::evr::Evr;
use super::relation::{Capability, Relation};
use kubexm_types::Digest;

/// One package of a repository.
#[derive(Debug, Clone)]
pub struct Package {
    /// Name.
    pub name: String,
    /// `x86_64`, `aarch64` or `noarch`.
    pub arch: String,
    /// Version.
    pub evr: Evr,
    /// Which of the set's repositories has it.
    pub repository: usize,
    /// Path below that repository's address.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Bytes that its files take.
    pub installed: u64,
    /// SHA-256.
    pub digest: Digest,
    /// What it says of itself in a line.
    pub summary: String,
    /// What it gives to others.
    pub provides: Vec<Capability>,
    /// What it needs; weak dependencies are not read.
    pub requires: Vec<Relation>,
    /// What it cannot live with.
    pub conflicts: Vec<Relation>,
    /// Packages, by name, that it takes the place of.
    pub obsoletes: Vec<Capability>,
    /// Those of its files that are known: the usual ones, and others that somebody requires.
    pub files: Vec<String>,
}

impl Package {
    /// Last part of its path.
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Name, version and architecture as modules list them: the epoch always.
    pub fn nevra(&self) -> String {
        let Evr {
            epoch,
            version,
            release,
        } = &self.evr;
        let release = release.as_deref().unwrap_or_default();
        format!("{}-{epoch}:{version}-{release}.{}", self.name, self.arch)
    }

    /// How messages name it.
    pub fn label(&self) -> String {
        format!("{}-{}.{}", self.name, self.evr, self.arch)
    }

    /// Whether it takes the place of another: obsoletes mean packages, not what they provide.
    pub fn obsoletes(&self, other: &Self) -> bool {
        let own = super::evr::Range {
            sense: super::evr::Sense::EQUAL,
            evr: other.evr.clone(),
        };
        self.name != other.name
            && self
                .obsoletes
                .iter()
                .any(|old| old.name == other.name && old.takes(Some(&own)))
    }
}

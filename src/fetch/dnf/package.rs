//! A package as a repository describes it.

use super::evr::Evr;
use super::relation::{Capability, Relation};
use kubexm_types::Digest;

/// One package of a repository.
#[derive(Debug, Clone)]
pub struct Package {
    pub name: String,
    /// `x86_64`, `aarch64` or `noarch`.
    pub arch: String,
    pub evr: Evr,
    /// The index of its repository in the set.
    pub repository: usize,
    /// The path below the repository's address.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// Installed size in bytes.
    pub installed: u64,
    pub digest: Digest,
    pub summary: String,
    pub provides: Vec<Capability>,
    /// Requirements without weak dependencies.
    pub requires: Vec<Relation>,
    pub conflicts: Vec<Relation>,
    /// The packages, by name, that it replaces.
    pub obsoletes: Vec<Capability>,
    /// Known files: those in `primary.xml`, and others that a package requires.
    pub files: Vec<String>,
}

impl Package {
    /// Returns the last segment of the path.
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Returns name, version and architecture as in module documents, always with the epoch.
    pub fn nevra(&self) -> String {
        let Evr {
            epoch,
            version,
            release,
        } = &self.evr;
        let release = release.as_deref().unwrap_or_default();
        format!("{}-{epoch}:{version}-{release}.{}", self.name, self.arch)
    }

    /// Returns the name for messages.
    pub fn label(&self) -> String {
        format!("{}-{}.{}", self.name, self.evr, self.arch)
    }

    /// Orders two versions of a package: newer versions first, then packages for the architecture. For
    /// equal versions, the first repository is preferred by a stable sort.
    pub fn preference(&self, other: &Self) -> std::cmp::Ordering {
        let native = |package: &Self| package.arch != "noarch";
        let order = other.evr.compare(&self.evr);
        order.then_with(|| native(other).cmp(&native(self)))
    }

    /// Whether it replaces another package. Obsoletes refer to package names, not to what packages provide.
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

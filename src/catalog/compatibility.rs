//! Which versions of components are compatible with a minor of Kubernetes.

use std::collections::BTreeMap;

use serde::Deserialize;

use kubexm_bundle::Lock;
use kubexm_types::Version;

/// The compatibility table: one entry for each minor of Kubernetes.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub(crate) struct Compatibility(Vec<Entry>);

/// The versions of components that are compatible with a minor of Kubernetes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    kubernetes: String,
    components: BTreeMap<String, Ranges>,
}

/// Ranges of versions, such as one for each release line. One of them must contain the version.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Ranges {
    One(semver::VersionReq),
    Several(Vec<semver::VersionReq>),
}

impl Ranges {
    fn all(&self) -> &[semver::VersionReq] {
        match self {
            Self::One(range) => std::slice::from_ref(range),
            Self::Several(ranges) => ranges,
        }
    }

    fn contain(&self, version: &Version) -> bool {
        let mut ranges = self.all().iter();
        ranges.any(|range| range.matches(version.semver()))
    }
}

impl std::fmt::Display for Ranges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ranges: Vec<String> = self.all().iter().map(ToString::to_string).collect();
        f.write_str(&ranges.join(" or "))
    }
}

impl Compatibility {
    /// Returns a warning about the Kubernetes versions of a lock that are newer than the table, if there are any.
    pub(crate) fn unknown_kubernetes(&self, lock: &Lock) -> Option<String> {
        let newest = self.minors().max()?;
        let unknown = lock.kubernetes.iter();
        let unknown = unknown.filter(|version| version.major_minor() > newest);
        let unknown: Vec<String> = unknown.map(Version::to_string).collect();
        (!unknown.is_empty()).then(|| {
            format!(
                "this kubexm knows Kubernetes up to {}.{}, so it does not know which versions of other components are \
                 compatible with {}; a newer kubexm may know it",
                newest.0,
                newest.1,
                unknown.join(" and ")
            )
        })
    }

    /// Returns the minors of Kubernetes in the table.
    fn minors(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().filter_map(|entry| {
            let (major, minor) = entry.kubernetes.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        })
    }

    /// Returns one sentence for each pair of components in a lock that are not compatible.
    pub(crate) fn incompatibilities(&self, lock: &Lock) -> Vec<String> {
        let mut findings = Vec::new();
        for version in &lock.kubernetes {
            let minor = format!("{}.{}", version.major(), version.minor());
            let mut known = self.0.iter();
            let known = known.find(|entry| entry.kubernetes == minor);
            let oldest = self.minors().min();
            if oldest.is_some_and(|oldest| version.major_minor() < oldest) {
                let (major, minor) = oldest.unwrap_or_default();
                findings.push(format!(
                    "Kubernetes {version} is not supported; kubexm supports {major}.{minor} and newer"
                ));
                continue;
            }
            for file in &lock.files {
                let expected = known.and_then(|known| known.components.get(&file.component));
                if let Some(expected) = expected.filter(|ranges| !ranges.contain(&file.version)) {
                    findings.push(format!(
                        "{} {} is not compatible with Kubernetes {version}, which requires {expected}",
                        file.component, file.version
                    ));
                }
            }
            let minimum = lock
                .kubeadm(version)
                .and_then(|facts| facts.minimum_etcd.as_ref());
            for file in lock.files.iter().filter(|file| file.component == "etcd") {
                if minimum.is_some_and(|minimum| file.version < *minimum) {
                    let minimum = minimum.map(ToString::to_string).unwrap_or_default();
                    findings.push(format!(
                        "etcd {} is too old: kubeadm {version} requires at least {minimum}",
                        file.version
                    ));
                }
            }
        }
        findings.sort();
        findings.dedup();
        findings
    }
}

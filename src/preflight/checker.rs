//! What the checks of one host have in common.

use std::collections::BTreeMap;

use crate::finding::Finding;
use kubexm_config::cluster::Cluster;
use kubexm_host::facts::Facts;
use kubexm_types::{Arch, FindingKind, HostName};

/// The content of the bundle that the checks compare with hosts.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    /// The content for each architecture of the bundle.
    pub carried: BTreeMap<Arch, Carried>,
    /// The compressed size, in KiB, of the images for all architectures of the hosts.
    pub registry_kib: u64,
    /// Distributions and releases for which the bundle has packages.
    pub releases: Vec<(String, String)>,
    /// The folder in which the container runtime stores images and containers.
    pub runtime_dir: String,
}

/// The content of a bundle for hosts of one architecture.
#[derive(Debug, Clone, Copy, Default)]
pub struct Carried {
    /// The compressed size of all images, in KiB.
    pub images_kib: u64,
    /// The size of all binaries, in KiB.
    pub files_kib: u64,
}

/// The checks of one host. Modules add methods, each for one subject.
pub(crate) struct Checker<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) name: &'a HostName,
    pub(crate) facts: &'a Facts,
    pub(crate) offer: &'a Offer,
    pub(crate) findings: &'a mut Vec<Finding>,
}

impl Checker<'_> {
    pub(crate) fn error(&mut self, kind: FindingKind, what: impl Into<String>, hint: &str) {
        self.add(kind, true, what.into(), hint);
    }

    pub(crate) fn warning(&mut self, kind: FindingKind, what: impl Into<String>, hint: &str) {
        self.add(kind, false, what.into(), hint);
    }

    pub(crate) fn add(&mut self, kind: FindingKind, fatal: bool, what: String, hint: &str) {
        self.findings
            .push(Finding::new(kind, self.name, fatal, what, hint));
    }

    pub(crate) fn ignored(&self, check: &str) -> bool {
        self.cluster.kubernetes.ignores(check)
    }
}

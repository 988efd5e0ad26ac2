//! The checked form of a bundle manifest. `manifest_document` creates it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::cluster::{Addon, KubernetesKind};
use super::problem::Notice;
use kubexm_types::artifact::ArtifactSource;
use kubexm_types::signature_policy::SignaturePolicy;
use kubexm_types::{Arch, ImagePath, ImageRef, LoginUrl, Version};

/// The content of a bundle, as a bundle manifest describes it.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// `metadata.name`.
    pub name: String,
    /// Architectures of the hosts.
    pub architectures: Vec<Arch>,
    /// Versions of Kubernetes. They determine kubeadm, kubelet, kubectl and the images that kubeadm lists. Empty for a
    /// bundle of applications.
    pub kubernetes: Vec<Version>,
    /// The ways to run Kubernetes. kubeadm is always included, because it lists the images.
    pub kubernetes_kinds: Vec<KubernetesKind>,
    /// Whether to include the conformance tests of these versions, and the images that they run.
    pub conformance: bool,
    /// Other components by their name in the catalog, each with one or more versions.
    pub components: BTreeMap<String, Vec<Version>>,
    /// Network plugins by their name in the catalog. The version determines the images.
    pub network: BTreeMap<String, Version>,
    /// Load balancers that run as static pods, by their name in the catalog. The version determines the images.
    pub load_balancer: BTreeMap<String, Version>,
    /// Add-ons with their versions.
    pub addons: Vec<(Addon, Version)>,
    /// Images that the user adds, by name and in files.
    pub images: Vec<ImageRef>,
    /// Artifacts in OCI registries that are not images, such as policies and models.
    pub oci_artifacts: Vec<ImageRef>,
    /// Files with images, one in a line; `manifest_document` adds their images to `images`.
    pub images_from: Vec<PathBuf>,
    /// Fields of custom resources that name images.
    pub image_paths: Vec<ImagePath>,
    /// OS packages.
    pub packages: Vec<PackageSource>,
    /// Files, charts and manifests that the user adds.
    pub artifacts: Vec<ArtifactSource>,
    /// Signature policies, in addition to those of the catalog.
    pub signatures: Vec<SignaturePolicy>,
    /// What the user should write in another way.
    pub notices: Vec<Notice>,
}

/// OS packages for one release of one distribution.
#[derive(Debug, Clone)]
pub struct PackageSource {
    /// `ID` of os-release, or `rhel-like` for RHEL and compatible systems.
    pub distribution: String,
    /// `VERSION_CODENAME` of os-release, `VERSION_ID`, the part of `VERSION_ID` before the dot, or, for openEuler,
    /// the release with its service pack, as in `24.03-LTS-SP3`.
    pub release: String,
    pub repositories: Repositories,
    /// Names of packages. Their dependencies are added.
    pub packages: Vec<String>,
}

/// Package repositories of one package manager. Packages are resolved from all of them together.
#[derive(Debug, Clone)]
pub enum Repositories {
    /// For apt.
    Apt(Vec<AptRepository>),
    /// For dnf.
    Dnf(DnfSet),
}

/// A Debian package archive
/// (<https://wiki.debian.org/DebianRepository/Format>).
#[derive(Debug, Clone)]
pub struct AptRepository {
    /// Base URL, as in `http://deb.debian.org/debian`; with a login if the archive requires one.
    pub url: LoginUrl,
    /// Suite, as in `trixie`.
    pub suite: String,
    /// Components, as in `main`.
    pub components: Vec<String>,
    /// The architectures that the archive has; empty for all. Ubuntu has two archives.
    pub architectures: Vec<Arch>,
    /// Keyring files on the build machine. One of their keys must have signed `InRelease`.
    pub signed_by: Vec<PathBuf>,
}

impl AptRepository {
    /// Whether the archive has packages of an architecture.
    pub fn serves(&self, arch: Arch) -> bool {
        self.architectures.is_empty() || self.architectures.contains(&arch)
    }
}

/// Repositories of rpm packages, and the packages that hosts already have.
#[derive(Debug, Clone)]
pub struct DnfSet {
    pub repositories: Vec<DnfRepository>,
    /// Packages that every host has, with their dependencies; usually none.
    pub base: Vec<String>,
}

/// A repository of rpm packages: a directory that contains `repodata`.
#[derive(Debug, Clone)]
pub struct DnfRepository {
    /// URL; `$basearch` is replaced by `x86_64` or `aarch64`. With a login if the repository requires one.
    pub url: LoginUrl,
    /// Key files on the build machine. One of their keys must have signed.
    pub signed_by: Vec<PathBuf>,
    pub verify: Verify,
}

/// The parts of a dnf repository that must be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verify {
    /// Each package's header (dnf's `gpgcheck`).
    Packages,
    /// `repomd.xml` (dnf's `repo_gpgcheck`), which contains the digests of all other files.
    Metadata,
    /// Both.
    Both,
}

impl Verify {
    /// Returns true if `repomd.xml` must be signed.
    pub fn covers_metadata(self) -> bool {
        self != Self::Packages
    }

    /// Returns true if each package must be signed.
    pub fn covers_packages(self) -> bool {
        self != Self::Metadata
    }
}

//! A bundle manifest as the rest of kubexm sees it. Only `document` makes one.

use std::collections::BTreeMap;

use super::cluster::KubernetesKind;
use super::problem::Notice;
use kubexm_types::own::OwnSource;
use kubexm_types::signature_policy::SignaturePolicy;
use kubexm_types::{Arch, ImageRef, Version};

/// What a bundle shall contain.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// `metadata.name`.
    pub name: String,
    /// Architectures of the hosts.
    pub architectures: Vec<Arch>,
    /// Kubernetes versions; kubeadm, kubelet and kubectl follow them, and so do the images that
    /// each kubeadm lists.
    pub kubernetes: Vec<Version>,
    /// How clusters shall be able to run Kubernetes. kubeadm comes in any case: it names the images.
    pub kubernetes_kinds: Vec<KubernetesKind>,
    /// Other components by catalog name, each in one or more versions.
    pub components: BTreeMap<String, Vec<Version>>,
    /// Network plugins by catalog name with their versions; their images follow.
    pub network: BTreeMap<String, Version>,
    /// Load balancers of static pods by catalog name with their versions; their images follow.
    pub load_balancer: BTreeMap<String, Version>,
    /// Further images: the user's own.
    pub images: Vec<ImageRef>,
    /// OS packages.
    pub packages: Vec<PackageSource>,
    /// Files, charts and manifests of the user's own.
    pub own: Vec<OwnSource>,
    /// Which images must be signed, and by whom; the catalog has more.
    pub signatures: Vec<SignaturePolicy>,
    /// What the user should write in another way.
    pub notices: Vec<Notice>,
}

/// OS packages for one release of one distribution.
#[derive(Debug, Clone)]
pub struct PackageSource {
    /// `ID` of os-release, or `rhel-like` for Red Hat's and all that is built like it.
    pub distribution: String,
    /// `VERSION_CODENAME` of os-release, `VERSION_ID`, or what stands before the point in that.
    pub release: String,
    /// Where they come from.
    pub repositories: Repositories,
    /// Package names; what they depend on follows.
    pub packages: Vec<String>,
}

/// Package repositories, tried together. A host has one package manager.
#[derive(Debug, Clone)]
pub enum Repositories {
    /// Debian and its kin.
    Apt(Vec<AptRepository>),
    /// Red Hat and its kin.
    Dnf(DnfSet),
}

/// A Debian package archive
/// (<https://wiki.debian.org/DebianRepository/Format>).
#[derive(Debug, Clone)]
pub struct AptRepository {
    /// Base address, as in `http://deb.debian.org/debian`.
    pub url: url::Url,
    /// Suite, as in `trixie`.
    pub suite: String,
    /// Components, as in `main`.
    pub components: Vec<String>,
    /// Keyring files on this machine; one of their keys must have signed `InRelease`.
    pub signed_by: Vec<std::path::PathBuf>,
}

/// Repositories of rpm packages, and what hosts have anyway.
#[derive(Debug, Clone)]
pub struct DnfSet {
    /// The repositories.
    pub repositories: Vec<DnfRepository>,
    /// Packages that every host has, with all that they depend on; usually none.
    pub base: Vec<String>,
}

/// A repository of rpm packages: a folder with `repodata` in it.
#[derive(Debug, Clone)]
pub struct DnfRepository {
    /// Address; `$basearch` in it stands for `x86_64` or `aarch64`.
    pub url: url::Url,
    /// Key files on this machine; one of their keys must have signed.
    pub signed_by: Vec<std::path::PathBuf>,
    /// What must be signed.
    pub verify: Verify,
}

/// What of a dnf repository must be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verify {
    /// Each package's header (dnf's `gpgcheck`).
    Packages,
    /// `repomd.xml` (dnf's `repo_gpgcheck`), which names the digests of all else.
    Metadata,
    /// Both.
    Both,
}

impl Verify {
    /// Whether `repomd.xml` must be signed.
    pub fn covers_metadata(self) -> bool {
        self != Self::Packages
    }

    /// Whether each package must be signed.
    pub fn covers_packages(self) -> bool {
        self != Self::Metadata
    }
}

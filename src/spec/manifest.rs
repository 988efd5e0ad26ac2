//! A bundle manifest as the rest of kubexm sees it. Only `document` makes one.

use std::collections::BTreeMap;

use super::own::OwnSource;
use super::{Arch, ImageRef, Version};

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
    /// Other components by catalog name, each in one or more versions.
    pub components: BTreeMap<String, Vec<Version>>,
    /// Network plugins by catalog name with their versions; their images follow.
    pub network: BTreeMap<String, Version>,
    /// Further images: the user's own.
    pub images: Vec<ImageRef>,
    /// OS packages.
    pub packages: Vec<PackageSource>,
    /// Files, charts and manifests of the user's own.
    pub own: Vec<OwnSource>,
}

/// OS packages for one release of one distribution.
#[derive(Debug, Clone)]
pub struct PackageSource {
    /// `ID` of os-release.
    pub distribution: String,
    /// `VERSION_CODENAME` of os-release.
    pub release: String,
    /// Package archives, tried together.
    pub repositories: Vec<AptRepository>,
    /// Package names; what they depend on follows.
    pub packages: Vec<String>,
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
    /// Keyring file on this machine that must have signed `InRelease`.
    pub signed_by: std::path::PathBuf,
}

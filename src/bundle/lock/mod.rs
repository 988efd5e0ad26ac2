//! The lock: every file, image, package and artifact of a bundle with source, version, size and digest
//! (`FORMAT.md`, section 9).
//!
//! It is in the header of the bundle, and in a file beside it (`<bundle>.lock.yaml`).

pub mod blob_index;
mod by_architecture;
pub(crate) mod checksum_source;
pub(crate) mod descriptor;
pub mod difference;
mod linking;
mod logins;
mod signature_tags;
mod signatures;
pub(crate) mod text;
pub mod trust;
pub mod user_content;
pub(crate) mod validate;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::lock::blob_index::CachedIndex;
pub use crate::lock::checksum_source::ChecksumSource;
pub use crate::lock::descriptor::Descriptor;
pub use crate::lock::linking::Linking;
pub use crate::lock::signatures::{FileSignature, LockedSignature};
use crate::lock::user_content::LockedArtifact;
pub use crate::lock::validate::is_package_file;
use kubexm_kinds::PackageManager;
use kubexm_types::signature_policy::NamePrefix;
use kubexm_types::{Arch, Digest, ImagePath, ImageRef, Message, Version};

/// The content of a bundle. All lists are sorted, so that equal content has equal text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lock {
    /// Version of this document: the lowest one that has all of its members.
    pub lock_version: u32,
    /// The manifest's `metadata.name`.
    pub name: String,
    /// Kubernetes versions that can be installed from the bundle.
    pub kubernetes: Vec<Version>,
    /// Architectures that are complete in the bundle.
    pub architectures: Vec<Arch>,
    /// Binaries and archives, by (component, version, arch).
    pub files: Vec<LockedFile>,
    /// Images, by name.
    pub images: Vec<LockedImage>,
    /// OS package sets, by (distribution, release, arch).
    pub packages: Vec<LockedPackages>,
    /// Facts that each bundled kubeadm reports, by version.
    pub kubeadm: Vec<KubeadmFacts>,
    /// Artifacts of the user, by (kind, name, version).
    #[serde(rename = "own", default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<LockedArtifact>,
    /// The fields of custom resources that name images, as the manifest declares them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_paths: Vec<ImagePath>,
    /// The cache of [`Lock::blobs`].
    #[serde(skip)]
    pub index: CachedIndex,
}

/// The version alone, which every version of the document has.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Versioned {
    lock_version: u32,
}

/// One downloaded file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedFile {
    /// Name in the catalog, such as `kubeadm` or `containerd`.
    pub component: String,
    pub version: Version,
    pub arch: Arch,
    /// File name at the source.
    pub file_name: String,
    /// Public address, never that of a mirror.
    pub url: Url,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 of the file as published.
    pub digest: Digest,
    /// Trust basis of the digest.
    pub checksum: ChecksumSource,
    pub format: FileFormat,
    /// For archives: the files that an installation uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Member>,
    /// For programs: what a dynamically linked one needs of its host. `None` for a static one, and in locks of
    /// earlier versions of kubexm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linking: Option<Linking>,
    /// The publisher's signature, if a policy required one; verified at build time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<FileSignature>,
    /// Set if the publisher signs this version and the file was accepted without its signature: the prefix in
    /// the mirror file or in the bundle manifest that allows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsigned: Option<NamePrefix>,
}

/// How a file is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileFormat {
    /// An executable.
    Binary,
    /// A gzip-compressed tar.
    TarGz,
    /// Kubernetes objects in YAML. The bundle also contains the images of their pods.
    Manifest,
}

/// A regular file inside an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Member {
    /// Path inside the archive, without a leading `./`.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 of the content.
    pub digest: Digest,
    /// As in [`LockedFile::linking`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linking: Option<Linking>,
}

/// An image, or another artifact in an OCI registry, with its manifests and blobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedImage {
    /// The name that clusters use, with tag.
    pub name: ImageRef,
    /// The top manifest (an index or a single manifest), as published.
    pub manifest: Descriptor,
    /// The manifests of the platforms in the bundle, or all manifests of an artifact that is not an image. Without an
    /// index, this is the top manifest.
    pub platforms: Vec<PlatformManifest>,
    /// The publisher's signature of the top manifest, if a policy required one; verified at build time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<LockedSignature>,
    /// Trust basis of the digest; `None` in locks of version 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<ChecksumSource>,
    /// As in [`LockedFile::unsigned`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsigned: Option<NamePrefix>,
}

impl LockedImage {
    /// Returns whether it is an artifact that no container runtime runs, such as a policy or a model.
    pub fn is_artifact(&self) -> bool {
        !self.platforms.is_empty() && self.arches().next().is_none()
    }

    /// Returns the architectures of an image; none for another artifact.
    pub fn arches(&self) -> impl Iterator<Item = Arch> {
        self.platforms.iter().filter_map(|p| p.arch)
    }

    /// Returns the indexes between the top manifest and the manifests of the platforms, children first. An index that
    /// has several depths occurs once for each of them.
    pub fn indexes(&self) -> Vec<&Descriptor> {
        let platforms = self.platforms.iter();
        let deepest = platforms.clone().map(|p| p.indexes.len()).max();
        let mut indexes = Vec::new();
        for depth in (0..deepest.unwrap_or_default()).rev() {
            let mut seen = BTreeSet::new();
            let level = platforms.clone().filter_map(|p| p.indexes.get(depth));
            indexes.extend(level.filter(|index| seen.insert(index.digest)));
        }
        indexes
    }
}

/// One platform of an image, or one manifest of another artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlatformManifest {
    /// The architecture; the operating system is always Linux. `None` for an artifact that is not an image: it is carried
    /// for all architectures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arch: Option<Arch>,
    /// The indexes between the top manifest and this one, each named by the one before it; usually none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<Descriptor>,
    pub manifest: Descriptor,
    /// The configuration and the layers, in the order of the manifest.
    pub blobs: Vec<Descriptor>,
}

impl PlatformManifest {
    /// Returns the documents below the top manifest, children first.
    pub fn manifests(&self) -> impl Iterator<Item = &Descriptor> {
        std::iter::once(&self.manifest).chain(self.indexes.iter().rev())
    }

    /// Returns all blobs of the platform.
    pub fn everything(&self) -> impl Iterator<Item = &Descriptor> {
        self.manifests().chain(&self.blobs)
    }
}

/// OS packages for one release of a distribution, with their dependencies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedPackages {
    /// `ID` of os-release, such as `debian`, or `rhel-like`.
    pub distribution: String,
    /// `VERSION_CODENAME` of os-release, such as `trixie`, or the beginning of `VERSION_ID`.
    pub release: String,
    pub arch: Arch,
    /// The requested names.
    pub requested: Vec<String>,
    #[serde(default)]
    pub format: PackageFormat,
    /// The repository index of these packages, for the host's package manager.
    pub index: Descriptor,
    /// The packages, by name.
    pub packages: Vec<LockedPackage>,
}

impl LockedPackages {
    /// Returns the package manager of the hosts that the packages are for.
    pub fn manager(&self) -> PackageManager {
        PackageManager::of(&self.distribution, self.format == PackageFormat::Deb)
    }
}

/// A format of OS packages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PackageFormat {
    #[default]
    Deb,
    Rpm,
}

impl PackageFormat {
    /// Returns the media type of the index.
    pub fn index_type(self) -> &'static str {
        match self {
            Self::Deb => "application/vnd.debian.packages-index",
            Self::Rpm => "application/vnd.rpm.primary+xml",
        }
    }

    /// Returns the media type of a package.
    pub fn package_type(self) -> &'static str {
        match self {
            Self::Deb => "application/vnd.debian.binary-package",
            Self::Rpm => "application/x-rpm",
        }
    }

    /// Returns the path of the index relative to the directory of the packages.
    pub fn index_path(self) -> &'static str {
        match self {
            Self::Deb => "Packages",
            Self::Rpm => "repodata/primary.xml",
        }
    }

    /// Returns the suffix of the names of package files.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Deb => ".deb",
            Self::Rpm => ".rpm",
        }
    }
}

/// One OS package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedPackage {
    pub name: String,
    /// The version in the format of the distribution.
    pub version: String,
    /// File name, as in `conntrack_1.4.8-2_amd64.deb`.
    pub file_name: String,
    /// Public address.
    pub url: Url,
    /// Size in bytes.
    pub size: u64,
    pub digest: Digest,
}

/// Facts that a version of kubeadm reports about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeadmFacts {
    pub version: Version,
    /// The output of `kubeadm config images list`, in its order.
    pub images: Vec<ImageRef>,
    /// The minimum version of an external etcd.
    pub minimum_etcd: Option<Version>,
}

impl KubeadmFacts {
    /// Returns the image of the sandboxes of pods that this version expects.
    pub fn pause_image(&self) -> Option<&ImageRef> {
        let mut images = self.images.iter();
        images.find(|image| image.repository().ends_with("pause"))
    }
}

impl Lock {
    /// The newest version that this program reads and writes.
    pub const VERSION: u32 = 6;
    /// The oldest version that this program reads and writes.
    pub const OLDEST_VERSION: u32 = 1;

    /// Returns a lock without content.
    pub fn empty(name: &str) -> Self {
        Self {
            lock_version: Self::OLDEST_VERSION,
            name: name.to_owned(),
            kubernetes: Vec::new(),
            architectures: Vec::new(),
            files: Vec::new(),
            images: Vec::new(),
            packages: Vec::new(),
            kubeadm: Vec::new(),
            artifacts: Vec::new(),
            image_paths: Vec::new(),
            index: Default::default(),
        }
    }

    /// Parses and validates a lock as untrusted input.
    ///
    /// # Errors
    /// The text is not a valid lock, or a newer kubexm wrote it.
    pub fn from_yaml(text: &str) -> Result<Self, Message> {
        // A lock has a few thousand entries; its depth is fixed.
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! { max_anchors: 0, max_nodes: 2_000_000, max_events: 4_000_000, max_total_scalar_bytes: 64 * 1024 * 1024 },
            with_snippet: false,
        };
        let unreadable = |error: serde_saphyr::Error| format!("its lock cannot be parsed: {error}");
        let version: Versioned =
            serde_saphyr::from_str_with_options(text, options.clone()).map_err(unreadable)?;
        let (got, oldest, newest) = (version.lock_version, Self::OLDEST_VERSION, Self::VERSION);
        if !(oldest..=newest).contains(&got) {
            return Err(Message::new(format!(
                "its lock has version {got}, but this kubexm reads {oldest} to {newest}"
            ))
            .hint("use a newer kubexm"));
        }
        let mut lock: Self =
            serde_saphyr::from_str_with_options(text, options).map_err(unreadable)?;
        lock.remove_logins();
        crate::lock::validate::check(&lock)?;
        Ok(lock)
    }

    /// Returns the lowest version of the document that has all members of this lock (`FORMAT.md`, section 16).
    pub(crate) fn required_version(&self) -> u32 {
        let is_new = |checksum: &ChecksumSource| checksum.is_new();
        let in_files = self
            .files
            .iter()
            .any(|f| f.unsigned.is_some() || is_new(&f.checksum));
        let in_images = self
            .images
            .iter()
            .any(|i| i.unsigned.is_some() || i.checksum.is_some());
        let in_artifacts = self.artifacts.iter().any(|a| is_new(&a.checksum));
        let has_linking = |file: &LockedFile| {
            let mut members = file.members.iter();
            file.linking.is_some() || members.any(|member| member.linking.is_some())
        };
        if !self.image_paths.is_empty() {
            return 6;
        }
        if self.images.iter().any(LockedImage::is_artifact) {
            return 5;
        }
        let mut platforms = self.images.iter().flat_map(|image| &image.platforms);
        if platforms.any(|platform| !platform.indexes.is_empty()) {
            return 4;
        }
        if self.files.iter().any(has_linking) {
            return 3;
        }
        if in_files || in_images || in_artifacts {
            2
        } else {
            Self::OLDEST_VERSION
        }
    }

    /// Sorts every list, and raises the version of the document if a new entry needs it.
    pub fn sort(&mut self) {
        self.lock_version = self.lock_version.max(self.required_version());
        self.index = CachedIndex::default();
        self.kubernetes.sort();
        self.architectures.sort();
        self.files.sort_by(|a, b| {
            (&a.component, &a.version, a.arch).cmp(&(&b.component, &b.version, b.arch))
        });
        self.images.sort_by(|a, b| a.name.cmp(&b.name));
        let artifact = |one: &LockedArtifact| (one.kind, one.name.clone(), one.version.clone());
        self.artifacts.sort_by_key(artifact);
    }

    /// Returns the file of a component. If there are several versions, returns the newest.
    pub fn file(&self, component: &str, arch: Arch) -> Option<&LockedFile> {
        self.files
            .iter()
            .filter(|file| file.component == component && file.arch == arch)
            .max_by(|a, b| a.version.cmp(&b.version))
    }

    /// Returns the file of a component in this version.
    pub fn file_version(
        &self,
        component: &str,
        version: &Version,
        arch: Arch,
    ) -> Option<&LockedFile> {
        self.files.iter().find(|file| {
            file.component == component && file.arch == arch && file.version == *version
        })
    }

    /// Returns the image with this name.
    pub fn image(&self, name: &ImageRef) -> Option<&LockedImage> {
        self.images.iter().find(|image| image.name == *name)
    }

    /// Returns the package set for a host.
    pub fn package_set(
        &self,
        distribution: &str,
        release: &str,
        arch: Arch,
    ) -> Option<&LockedPackages> {
        self.packages.iter().find(|set| {
            set.distribution == distribution && set.release == release && set.arch == arch
        })
    }

    /// Returns the facts of this version of kubeadm.
    pub fn kubeadm(&self, version: &Version) -> Option<&KubeadmFacts> {
        self.kubeadm.iter().find(|facts| facts.version == *version)
    }
}

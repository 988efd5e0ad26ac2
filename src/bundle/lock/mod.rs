//! The lock: every file, image and package of a bundle with source, version, size and digest.
//!
//! It is written beside the bundle (`<bundle>.lock.yaml`), lies inside it, and is all that the
//! disconnected side knows about what it was given.

pub mod blob_index;
mod by_architecture;
pub(crate) mod checksum_source;
pub(crate) mod descriptor;
pub mod difference;
mod signature_tags;
mod signatures;
pub(crate) mod text;
pub mod user_content;
pub(crate) mod validate;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::lock::blob_index::CachedIndex;
pub use crate::lock::checksum_source::ChecksumSource;
pub use crate::lock::descriptor::Descriptor;
pub use crate::lock::signatures::{FileSignature, LockedSignature};
use crate::lock::user_content::LockedArtifact;
use kubexm_types::{Arch, Digest, ImageRef, Version};

/// Everything in a bundle. All lists are sorted, so that equal content is equal text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lock {
    /// Format of this document; this program writes and reads 1.
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
    /// What the bundled kubeadm said of itself, by version.
    pub kubeadm: Vec<KubeadmFacts>,
    /// Files, charts and manifests of the user's own, by (kind, name, version).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own: Vec<LockedArtifact>,
    /// The blobs by digest: see [`Lock::blobs`].
    #[serde(skip)]
    pub index: CachedIndex,
}

/// The document's version, whatever else a later version has in it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Versioned {
    lock_version: u32,
}

/// One downloaded file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedFile {
    /// Catalog name: `kubeadm`, `containerd`, `cni-plugins`…
    pub component: String,
    /// Its version.
    pub version: Version,
    /// Its architecture.
    pub arch: Arch,
    /// The file's name at its source.
    pub file_name: String,
    /// Public address (never a mirror's).
    pub url: Url,
    /// Bytes.
    pub size: u64,
    /// SHA-256 of the file as published.
    pub digest: Digest,
    /// Where the expected digest came from.
    pub checksum: ChecksumSource,
    /// What kind of file it is.
    pub format: FileFormat,
    /// For archives: the files that an install takes out, with what they must be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Member>,
    /// The publisher's signature, where a policy asked for one and it was verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<FileSignature>,
}

/// How a file is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileFormat {
    /// An executable as it is.
    Binary,
    /// A gzip-compressed tar.
    TarGz,
    /// Kubernetes objects in YAML; the images of their pods come along.
    Manifest,
}

/// A regular file inside an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Member {
    /// Path inside the archive, without a leading `./`.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256 of the content.
    pub digest: Digest,
}

/// An image with everything below its top manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedImage {
    /// The name by which clusters ask for it, with tag.
    pub name: ImageRef,
    /// The top manifest (an index or a single manifest), byte for byte as published.
    pub manifest: Descriptor,
    /// The manifests of the carried platforms; the top one itself where it is no index.
    pub platforms: Vec<PlatformManifest>,
    /// The publisher's signature of the top manifest, where a policy asked for one and it was verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<LockedSignature>,
}

/// One platform of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlatformManifest {
    /// The platform (always linux).
    pub arch: Arch,
    /// Its manifest.
    pub manifest: Descriptor,
    /// Its configuration and layers, in the manifest's order.
    pub blobs: Vec<Descriptor>,
}

/// OS packages for one release of one distribution, complete with what they depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedPackages {
    /// `ID` of os-release, such as `debian`, or `rhel-like`.
    pub distribution: String,
    /// `VERSION_CODENAME` of os-release, such as `trixie`, or (the beginning of) `VERSION_ID`.
    pub release: String,
    /// Architecture.
    pub arch: Arch,
    /// The names that were asked for.
    pub requested: Vec<String>,
    /// Kind of package.
    #[serde(default)]
    pub format: PackageFormat,
    /// The list of exactly these packages, all in one folder, that a host's package manager reads.
    pub index: Descriptor,
    /// The packages, sorted by name.
    pub packages: Vec<LockedPackage>,
}

/// A kind of OS package.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PackageFormat {
    /// For dpkg and apt.
    #[default]
    Deb,
    /// For rpm and dnf.
    Rpm,
}

impl PackageFormat {
    /// Media type of the index.
    pub fn index_type(self) -> &'static str {
        match self {
            Self::Deb => "application/vnd.debian.packages-index",
            Self::Rpm => "application/vnd.rpm.primary+xml",
        }
    }

    /// Media type of a package.
    pub fn package_type(self) -> &'static str {
        match self {
            Self::Deb => "application/vnd.debian.binary-package",
            Self::Rpm => "application/x-rpm",
        }
    }

    /// Where package managers look for the index, below the folder of the packages.
    pub fn index_path(self) -> &'static str {
        match self {
            Self::Deb => "Packages",
            Self::Rpm => "repodata/primary.xml",
        }
    }

    /// How the names of package files end.
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
    /// Package name.
    pub name: String,
    /// The distribution's version string.
    pub version: String,
    /// File name, as in `conntrack_1.4.8-2_amd64.deb`.
    pub file_name: String,
    /// Public address.
    pub url: Url,
    /// Bytes.
    pub size: u64,
    /// SHA-256.
    pub digest: Digest,
}

/// What a version of kubeadm answers about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeadmFacts {
    /// The kubeadm that was asked.
    pub version: Version,
    /// `kubeadm config images list`, in its order.
    pub images: Vec<ImageRef>,
    /// The least etcd version that it takes as external etcd.
    pub minimum_etcd: Option<Version>,
}

impl Lock {
    /// The one format this program writes.
    pub const VERSION: u32 = 1;

    /// Reads a lock's text.
    ///
    /// # Errors
    /// The text is no lock, or one of a later kubexm.
    pub fn from_yaml(text: &str) -> Result<Self, String> {
        // A lock has a few thousand entries; its depth is fixed.
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! { max_anchors: 0, max_nodes: 2_000_000, max_events: 4_000_000, max_total_scalar_bytes: 64 * 1024 * 1024 },
            with_snippet: false,
        };
        let unreadable = |error: serde_saphyr::Error| format!("its lock cannot be read: {error}");
        let version: Versioned =
            serde_saphyr::from_str_with_options(text, options.clone()).map_err(unreadable)?;
        let (got, own) = (version.lock_version, Self::VERSION);
        if got != own {
            return Err(format!(
                "its lock has format {got}; this kubexm reads {own}: use a newer one"
            ));
        }
        let lock: Self = serde_saphyr::from_str_with_options(text, options).map_err(unreadable)?;
        crate::lock::validate::check(&lock)?;
        Ok(lock)
    }

    /// Brings every list into its order.
    pub fn sort(&mut self) {
        self.index = CachedIndex::default();
        self.kubernetes.sort();
        self.architectures.sort();
        self.files.sort_by(|a, b| {
            (&a.component, &a.version, a.arch).cmp(&(&b.component, &b.version, b.arch))
        });
        self.images.sort_by(|a, b| a.name.cmp(&b.name));
        let own = |own: &LockedArtifact| (own.kind, own.name.clone(), own.version.clone());
        self.own.sort_by_key(own);
    }

    /// The file of a component; the newest where the bundle has several versions of it.
    pub fn file(&self, component: &str, arch: Arch) -> Option<&LockedFile> {
        self.files
            .iter()
            .filter(|file| file.component == component && file.arch == arch)
            .max_by(|a, b| a.version.cmp(&b.version))
    }

    /// The file of a component in just this version.
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

    /// The image of this name.
    pub fn image(&self, name: &ImageRef) -> Option<&LockedImage> {
        self.images.iter().find(|image| image.name == *name)
    }

    /// The package set for a host.
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

    /// What the kubeadm of this version said.
    pub fn kubeadm(&self, version: &Version) -> Option<&KubeadmFacts> {
        self.kubeadm.iter().find(|facts| facts.version == *version)
    }
}

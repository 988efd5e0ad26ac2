//! `bundle inspect` and `bundle list`: the metadata and the content of a bundle.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::trust::{self, TrustGroup};
use kubexm_bundle::lock::user_content::LockedArtifact;
use kubexm_bundle::lock::{LockedFile, LockedImage};
use kubexm_bundle::read::publishers::{Count, claimed};
use kubexm_bundle::{Bundle, BundleSignature, CreationTime, Lock, Sequence};
use kubexm_session::{BundleAccess, CommandError};
use kubexm_types::{Arch, Digest};

/// Which bundle to look at.
#[derive(Debug, Clone)]
pub struct InspectOptions {
    /// The bundle.
    pub bundle: PathBuf,
    /// How it is opened.
    pub access: BundleAccess,
    /// Only content for this architecture.
    pub arch: Option<Arch>,
}

/// The metadata of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inspection {
    /// The name in the manifest.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The size in bytes, of all volumes together.
    pub size: u64,
    /// The number of volumes, if the bundle is split.
    pub volumes: Option<usize>,
    /// The base bundles, if the bundle is incremental.
    pub base: Option<BaseInfo>,
    /// The ID of the minisign key that signed the bundle.
    pub signed_by: Option<String>,
    /// The signature of the bundle, and what it states.
    pub signature: Option<SignatureInfo>,
    /// The digest of the lock.
    pub lock: String,
    /// The versions of Kubernetes.
    pub kubernetes: Vec<String>,
    /// The architectures.
    pub architectures: Vec<Arch>,
    /// The number of files of components.
    pub files: usize,
    /// The number of images.
    pub images: usize,
    /// The number of artifacts for OCI registries that are not images.
    pub oci_artifacts: usize,
    /// What each publisher signed, as the lock claims; `bundle verify` checks it.
    pub publishers: Vec<SignedBy>,
    /// Why each file and image is trusted, as the lock says.
    pub trust: Vec<TrustGroup>,
    /// The number of the user's own files, charts and manifests.
    pub user_content: usize,
    /// The sets of operating system packages.
    pub packages: Vec<PackageSet>,
}

/// The base of an incremental bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BaseInfo {
    /// The names of the base bundles or of the site.
    pub name: String,
    /// The number of blobs that only the base contains.
    pub blobs: usize,
    /// The number of all blobs.
    pub total: usize,
}

/// The signature of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SignatureInfo {
    /// The ID of the minisign key.
    pub key: String,
    /// Whether a trusted key made the signature. Otherwise these are claims of the file.
    pub verified: bool,
    /// When the bundle was signed; `None` in a signature of an earlier kubexm.
    pub created: Option<CreationTime>,
    /// The order of the signed bundles of a cluster; `None` in a signature of an earlier kubexm.
    pub sequence: Option<Sequence>,
}

impl From<&BundleSignature> for SignatureInfo {
    fn from(signature: &BundleSignature) -> Self {
        Self {
            key: signature.key.clone(),
            verified: signature.verified,
            created: signature.revision.map(|revision| revision.created),
            sequence: signature.revision.map(|revision| revision.sequence),
        }
    }
}

/// How much a publisher signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SignedBy {
    /// The identity or the key.
    pub signer: String,
    /// The number of images.
    pub images: usize,
    /// The number of files.
    pub files: usize,
}

impl SignedBy {
    pub fn new(signer: String, count: Count) -> Self {
        Self {
            signer,
            images: count.images,
            files: count.files,
        }
    }

    /// Returns how much was signed, in words.
    pub fn count(&self) -> String {
        let count = Count {
            images: self.images,
            files: self.files,
        };
        count.to_string()
    }
}

/// Operating system packages for one release and architecture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageSet {
    /// The distribution.
    pub distribution: String,
    /// Its release.
    pub release: String,
    /// The architecture.
    pub arch: Arch,
    /// The number of packages.
    pub packages: usize,
}

/// The content of a bundle, item by item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Contents {
    /// Files, images and other artifacts for OCI registries, the user's own content, packages: in this order.
    pub items: Vec<Item>,
}

/// One item of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// `file`, `image`, `artifact`, `chart`, `manifest` or `package`.
    pub kind: &'static str,
    /// The component, the full image name, or the file's name.
    pub name: String,
    /// The version, where the item has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The architectures; empty if the item does not depend on one.
    pub architectures: Vec<Arch>,
    /// The distribution and release of a package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// The size in bytes, of all blobs together.
    pub size: u64,
    /// The digest of the file, or of the image's index or manifest.
    pub digest: Digest,
    /// The publisher's signature, as the lock claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<ItemSignature>,
    /// The images that pods of a chart or manifest run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RunImage>,
}

/// A publisher's signature of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemSignature {
    /// The identity or the key.
    pub by: String,
    /// The digest of the signature.
    pub digest: Digest,
}

/// An image that a chart or manifest runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunImage {
    /// The full name.
    pub name: String,
    /// Whether the bundle contains it.
    pub in_bundle: bool,
}

/// Reads the metadata of a bundle and checks that its index matches the file.
///
/// # Errors
/// The bundle cannot be read, or has nothing for the architecture.
pub fn inspect(options: &InspectOptions) -> Result<Inspection, CommandError> {
    let (bundle, lock) = open(options)?;
    let publishers = claimed(&lock).into_iter();
    let artifacts = lock.images.iter().filter(|i| i.is_artifact()).count();
    Ok(Inspection {
        path: bundle.path().to_owned(),
        size: bundle.size(),
        volumes: bundle.volume_count(),
        base: bundle.base().map(|base| BaseInfo {
            name: base.name.clone(),
            blobs: base.blobs.len(),
            total: bundle.lock().blobs().len(),
        }),
        signed_by: bundle.signature().map(|signature| signature.key.clone()),
        signature: bundle.signature().map(SignatureInfo::from),
        lock: bundle.lock_digest().to_string(),
        kubernetes: lock.kubernetes.iter().map(ToString::to_string).collect(),
        architectures: lock.architectures.clone(),
        files: lock.files.len(),
        images: lock.images.len() - artifacts,
        oci_artifacts: artifacts,
        publishers: publishers
            .map(|(signer, count)| SignedBy::new(signer, count))
            .collect(),
        trust: trust::groups(&lock),
        user_content: lock.artifacts.len(),
        packages: lock
            .packages
            .iter()
            .map(|set| PackageSet {
                distribution: set.distribution.clone(),
                release: set.release.clone(),
                arch: set.arch,
                packages: set.packages.len(),
            })
            .collect(),
        name: lock.name,
    })
}

/// Lists every file, image, chart, manifest and package of a bundle.
///
/// # Errors
/// The bundle cannot be read, or has nothing for the architecture.
pub fn list(options: &InspectOptions) -> Result<Contents, CommandError> {
    let (_, lock) = open(options)?;
    let mut items: Vec<Item> = lock.files.iter().map(file).collect();
    items.extend(lock.images.iter().map(image));
    items.extend(lock.artifacts.iter().map(|own| user_content(own, &lock)));
    for set in &lock.packages {
        items.extend(set.packages.iter().map(|package| Item {
            version: Some(package.version.to_string()),
            architectures: vec![set.arch],
            release: Some(format!("{} {}", set.distribution, set.release)),
            ..item("package", &package.name, package.size, package.digest)
        }));
    }
    Ok(Contents { items })
}

fn open(options: &InspectOptions) -> Result<(Bundle, Lock), CommandError> {
    let path: &Path = &options.bundle;
    let bundle = options.access.open(path)?;
    let lock = match options.arch {
        Some(arch) => bundle.lock().only_for(arch)?,
        None => bundle.lock().clone(),
    };
    Ok((bundle, lock))
}

fn item(kind: &'static str, name: &str, size: u64, digest: Digest) -> Item {
    Item {
        kind,
        name: name.to_owned(),
        version: None,
        architectures: Vec::new(),
        release: None,
        size,
        digest,
        signature: None,
        runs: Vec::new(),
    }
}

fn file(file: &LockedFile) -> Item {
    Item {
        version: Some(file.version.to_string()),
        architectures: vec![file.arch],
        signature: file.signature.as_ref().map(|signature| ItemSignature {
            by: signature.by.to_string(),
            digest: signature.signature.digest,
        }),
        ..item("file", &file.component, file.size, file.digest)
    }
}

fn image(image: &LockedImage) -> Item {
    let blobs = image.platforms.iter().flat_map(|p| &p.blobs);
    // Platforms may share blobs.
    let blobs: BTreeMap<_, _> = blobs.map(|blob| (blob.digest, blob.size)).collect();
    let name = image.name.to_string();
    let kind = if image.is_artifact() {
        "artifact"
    } else {
        "image"
    };
    Item {
        architectures: image.arches().collect(),
        signature: image.signature.as_ref().map(|signature| ItemSignature {
            by: signature.by.to_string(),
            digest: signature.manifest.digest,
        }),
        ..item(
            kind,
            &name,
            blobs.values().copied().fold(0, u64::saturating_add),
            image.manifest.digest,
        )
    }
}

fn user_content(own: &LockedArtifact, lock: &Lock) -> Item {
    let images = own.images.iter().map(|image| RunImage {
        name: image.to_string(),
        in_bundle: lock.image(image).is_some(),
    });
    Item {
        version: own.version.clone(),
        runs: images.collect(),
        ..item(own.kind.name(), &own.name, own.size, own.digest)
    }
}

//! The blobs of a lock by digest.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::Lock;
use kubexm_types::Digest;

/// The blobs of a bundle, each digest once.
pub type BlobIndex = BTreeMap<Digest, BlobInfo>;

/// A blob of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobInfo {
    /// Size in bytes, as published.
    pub size: u64,
    /// A name for messages and progress, such as the file name or the image that it belongs to.
    pub label: String,
}

/// Returns the sum of the sizes of all blobs.
pub fn content_size(index: &BlobIndex) -> u64 {
    index
        .values()
        .map(|blob| blob.size)
        .fold(0, u64::saturating_add)
}

/// The index of a lock, built when it is first needed.
///
/// A clone is empty, so that a clone of a lock can be changed. The index takes no part in comparisons.
#[derive(Debug, Default)]
pub struct CachedIndex(OnceLock<BlobIndex>);

impl Clone for CachedIndex {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for CachedIndex {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for CachedIndex {}

impl Lock {
    /// Returns the index of all blobs. It is built once: a lock must not be changed after the first
    /// call. Change a clone.
    pub fn blobs(&self) -> &BlobIndex {
        self.index.0.get_or_init(|| build(self))
    }
}

fn build(lock: &Lock) -> BlobIndex {
    let mut blobs = BlobIndex::new();
    let mut add = |digest: Digest, size: u64, label: &dyn Fn() -> String| {
        blobs.entry(digest).or_insert_with(|| BlobInfo {
            size,
            label: label(),
        });
    };
    for file in &lock.files {
        add(file.digest, file.size, &|| file.file_name.clone());
        for (suffix, blob) in file.signature_blobs() {
            let label = || format!("{}{suffix}", file.file_name);
            add(blob.digest, blob.size, &label);
        }
    }
    for image in &lock.images {
        let manifest = &image.manifest;
        add(manifest.digest, manifest.size, &|| image.name.to_string());
        for platform in &image.platforms {
            for blob in platform.everything() {
                let label = || match platform.arch {
                    Some(arch) => format!("{} ({arch})", image.name),
                    None => image.name.to_string(),
                };
                add(blob.digest, blob.size, &label);
            }
        }
        for blob in image.signature_blobs() {
            let label = || format!("signature of {}", image.name);
            add(blob.digest, blob.size, &label);
        }
    }
    for set in &lock.packages {
        let place = format!("{} {} {}", set.distribution, set.release, set.arch);
        let label = || format!("package index of {place}");
        add(set.index.digest, set.index.size, &label);
        for package in &set.packages {
            add(package.digest, package.size, &|| package.file_name.clone());
        }
    }
    for artifact in &lock.artifacts {
        add(artifact.digest, artifact.size, &|| artifact.describe());
    }
    blobs
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "
lockVersion: 1
name: example
kubernetes: []
architectures: [amd64]
files:
- component: runc
  version: 1.0.0
  arch: amd64
  fileName: runc.amd64
  url: https://example.org/runc.amd64
  size: 5
  digest: sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824
  checksum: pinned
  format: binary
images: []
packages: []
kubeadm: []
";

    #[test]
    fn the_index_is_built_once_and_a_clone_builds_its_own() {
        let lock = Lock::from_yaml(LOCK).unwrap();
        let index = lock.blobs();
        assert!(std::ptr::eq(index, lock.blobs()));
        let blob = index.values().next().unwrap();
        assert_eq!((blob.size, blob.label.as_str()), (5, "runc.amd64"));
        assert_eq!(content_size(index), 5);
        let mut other = lock.clone();
        assert_eq!(other, lock);
        other.files.clear();
        assert!(other.blobs().is_empty());
    }
}

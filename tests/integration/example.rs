//! Blobs in memory, and a small lock over them.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use kubexm::bundle::lock::{ChecksumSource, FileFormat, LockedFile};
use kubexm::bundle::{Blobs, BundleError, Lock, PackOptions, Storage, Written, write};
use kubexm::event::Events;
use kubexm::spec::{Arch, Digest, Version};

/// A bundle's blobs.
#[derive(Default)]
pub struct InMemory(pub BTreeMap<Digest, Vec<u8>>);

impl InMemory {
    pub fn add(&mut self, content: &[u8]) -> Digest {
        let digest = Digest::of(content);
        self.0.insert(digest, content.to_vec());
        digest
    }
}

impl Blobs for InMemory {
    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        let bytes = self.0.get(digest).cloned();
        let bytes = bytes.ok_or_else(|| BundleError::Missing(digest.to_string()))?;
        Ok(Box::new(std::io::Cursor::new(bytes)))
    }
}

/// A lock with a file for each of the contents, and what it names.
pub fn example(contents: &[Vec<u8>]) -> (Lock, InMemory) {
    let file = |(at, content): (usize, &Vec<u8>)| LockedFile {
        component: format!("part{at:04}"),
        version: Version::new(1, 0, 0),
        arch: Arch::Amd64,
        file_name: format!("part{at:04}"),
        url: "https://dl.example/part".parse().unwrap(),
        size: content.len() as u64,
        digest: Digest::of(content),
        checksum: ChecksumSource::Pinned,
        format: FileFormat::Binary,
        members: Vec::new(),
    };
    let lock = Lock {
        lock_version: Lock::VERSION,
        name: "example".into(),
        kubernetes: vec![Version::new(1, 36, 3)],
        architectures: vec![Arch::Amd64],
        files: contents.iter().enumerate().map(file).collect(),
        images: Vec::new(),
        packages: Vec::new(),
        kubeadm: Vec::new(),
        own: Vec::new(),
    };
    let mut blobs = InMemory::default();
    for content in contents {
        blobs.add(content);
    }
    (lock, blobs)
}

/// Packs every blob as it came and for itself.
pub fn write_plain(
    path: &Path,
    lock: &Lock,
    blobs: &InMemory,
    options: PackOptions,
) -> Result<Written, BundleError> {
    let storage = Storage::plain(lock);
    write(path, lock, &storage, blobs, options, &Events::silent())
}

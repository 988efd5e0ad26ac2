//! Blobs in memory, and a small lock of them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use kubexm_bundle::lock::{
    ChecksumSource, Descriptor, FileFormat, LockedFile, LockedImage, PlatformManifest,
};
use kubexm_bundle::{Blobs, BundleError, Lock, PackOptions, Placement, Written, write};
use kubexm_types::event::Events;
use kubexm_types::{Arch, Digest, Version};

/// The blobs of a bundle.
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
        let bytes = bytes.ok_or_else(|| BundleError::Missing(digest.to_string().into()))?;
        Ok(Box::new(std::io::Cursor::new(bytes)))
    }
}

/// Returns a lock with a file for each content, and its blobs.
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
        linking: None,
        signature: None,
        unsigned: None,
    };
    let lock = Lock {
        lock_version: 2,
        name: "example".into(),
        kubernetes: vec![Version::new(1, 36, 3)],
        architectures: vec![Arch::Amd64],
        files: contents.iter().enumerate().map(file).collect(),
        images: Vec::new(),
        packages: Vec::new(),
        kubeadm: Vec::new(),
        artifacts: Vec::new(),
        image_paths: Vec::new(),
        index: Default::default(),
    };
    let mut blobs = InMemory::default();
    for content in contents {
        blobs.add(content);
    }
    (lock, blobs)
}

/// Returns an image with one platform, whose manifest is the top manifest.
pub fn image(name: &str, manifest: Descriptor) -> LockedImage {
    LockedImage {
        name: name.parse().unwrap(),
        platforms: vec![PlatformManifest {
            indexes: Vec::new(),
            arch: Some(Arch::Amd64),
            manifest: manifest.clone(),
            blobs: Vec::new(),
        }],
        manifest,
        signature: None,
        unsigned: None,
        checksum: None,
    }
}

/// Packs every blob unchanged, without groups.
pub fn write_plain(
    path: &Path,
    lock: &Lock,
    blobs: &InMemory,
    options: PackOptions<'_>,
) -> Result<Written, BundleError> {
    let storage = Placement::plain(lock);
    write(path, lock, &storage, blobs, options, &Events::silent())
}

/// Returns bytes that compress partly, different for each seed.
pub fn text(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut word = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        format!("{:x} ", state % 5000)
    };
    let mut text = Vec::new();
    while text.len() < length {
        text.extend(word().into_bytes());
    }
    text.truncate(length);
    text
}

pub fn all(mut reader: impl Read) -> Vec<u8> {
    let mut content = Vec::new();
    reader.read_to_end(&mut content).unwrap();
    content
}

/// Checks that a bundle has these blobs, read one by one and all together.
pub fn assert_holds(source: &dyn Blobs, blobs: &InMemory) {
    for (digest, content) in &blobs.0 {
        assert!(all(source.open(digest).unwrap()) == *content, "{digest}");
    }
    let wanted: BTreeSet<Digest> = blobs.0.keys().copied().collect();
    let mut streamed = InMemory::default();
    let mut ended = BTreeSet::new();
    source
        .stream(&wanted, &mut |chunk| {
            assert!(!ended.contains(&chunk.digest), "something follows the end");
            let content = streamed.0.entry(chunk.digest).or_default();
            content.extend_from_slice(chunk.bytes);
            if chunk.last {
                ended.insert(chunk.digest);
            }
            Ok(())
        })
        .unwrap();
    assert!(streamed.0 == blobs.0, "streamed");
    assert_eq!(ended, wanted);
}

/// Runs the real program. Returns its exit code and its output.
pub fn kubexm(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubexm"));
    command
        .env_remove("KUBEXM_KEY_PASSWORD")
        .stdin(Stdio::null());
    let output = command.args(arguments).output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(printed).unwrap())
}

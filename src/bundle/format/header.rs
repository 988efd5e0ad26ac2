//! The header of a bundle: its first zstd frame, parsed as untrusted input.
//!
//! With trusted keys, only its first three entries are decompressed and parsed before the signature is
//! verified.

use std::collections::BTreeMap;
use std::io::{self, Read};

use crate::format::oci_layout;
use crate::format::placement::Placement;
use crate::format::recompression::Recompression;
use crate::format::tar_entry::{TAR_BLOCK, entry_header};
use crate::lock::Lock;
use crate::signature::{self, BundleSignature};
use crate::statement::Statement;
use kubexm_types::{Digest, Message, PublicKey};

/// The number of entries that a signature needs: `oci-layout`, `index.json` and the signature.
const SIGNED_ENTRIES: usize = 3;
/// `oci-layout`, `index.json`, its signature, the artifact manifest, the lock, the configuration and the
/// placement document.
const ENTRIES: usize = 7;

/// The parsed header.
#[derive(Debug)]
pub struct BundleHeader {
    /// The lock.
    pub lock: Lock,
    /// SHA-256 of the lock's text.
    pub lock_digest: Digest,
    /// The placement document.
    pub storage: Placement,
    /// The gzip blobs that the builder recompressed.
    pub recompression: Recompression,
    /// The signature.
    pub signature: Option<BundleSignature>,
    /// The documents as they are in the file.
    pub documents: oci_layout::Documents,
}

/// Why a header is refused, as the rest of a sentence about the bundle.
#[derive(Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// It is damaged, or it is not a header.
    Damaged(Message),
    /// No trusted key signed it.
    Untrusted(Message),
}

impl<M: Into<Message>> From<M> for HeaderError {
    fn from(reason: M) -> Self {
        Self::Damaged(reason.into())
    }
}

/// Parses the header and verifies every document against the digests above it. `size` is the size of the
/// header in bytes. If `trust` is not empty, one of its keys must have signed the index; this is checked
/// before anything behind the signature is read.
///
/// # Errors
/// The header is damaged or not trusted.
pub fn read(head: impl Read, size: u64, trust: &[PublicKey]) -> Result<BundleHeader, HeaderError> {
    let mut tar = Tar {
        source: head.take(size.saturating_add(1)),
        size,
        read: 0,
    };
    let mut entries = BTreeMap::new();
    if !trust.is_empty() {
        tar.read_entries(&mut entries, SIGNED_ENTRIES)?;
        verify_signature(&borrowed(&entries), trust)?;
    }
    tar.read_entries(&mut entries, ENTRIES)?;
    from_entries(&borrowed(&entries), trust)
}

fn borrowed(entries: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, &[u8]> {
    let entries = entries.iter();
    entries
        .map(|(name, content)| (name.clone(), &content[..]))
        .collect()
}

/// The index of a header, its signature, and what a trusted key states about the bundle.
struct SignedIndex<'a> {
    index: &'a [u8],
    signature: Option<&'a str>,
    statement: Option<Statement>,
}

/// Checks that one of the trusted keys signed the index. Without keys it accepts every bundle.
fn verify_signature<'a>(
    entries: &BTreeMap<String, &'a [u8]>,
    trust: &[PublicKey],
) -> Result<SignedIndex<'a>, HeaderError> {
    let layout = entries.get("oci-layout").copied();
    if layout != Some(oci_layout::LAYOUT.as_bytes()) {
        return Err("is not a kubexm bundle: it has no OCI image layout of version 1.0.0".into());
    }
    let index = *entries.get("index.json").ok_or("has no index.json")?;
    let signature = entries
        .get(oci_layout::SIGNATURE)
        .map(|text| std::str::from_utf8(text).map_err(|_| "has a signature that is not UTF-8"))
        .transpose()?;
    let statement = match trust {
        [] => None,
        trust => signature::check(index, signature, trust).map_err(HeaderError::Untrusted)?,
    };
    Ok(SignedIndex {
        index,
        signature,
        statement,
    })
}

/// Does what [`read`] does, from the names and contents of the entries.
///
/// # Errors
/// As [`read`].
pub fn from_entries(
    entries: &BTreeMap<String, &[u8]>,
    trust: &[PublicKey],
) -> Result<BundleHeader, HeaderError> {
    let SignedIndex {
        index,
        signature,
        statement,
    } = verify_signature(entries, trust)?;
    let Texts {
        manifest,
        lock: lock_text,
        config,
        proof,
    } = documents(index, entries)?;
    let text = std::str::from_utf8(lock_text).map_err(|_| "its lock is not UTF-8")?;
    let lock = Lock::from_yaml(text)?;
    for image in
        oci_layout::images_in_index(index).ok_or("has an index.json that names no images")?
    {
        let is_locked = |(digest, size)| {
            let signatures = lock.images.iter().filter_map(|i| i.signature.as_ref());
            let signatures = signatures.map(|signature| &signature.manifest);
            let images = lock.images.iter().map(|locked| &locked.manifest);
            images
                .chain(signatures)
                .any(|manifest| manifest.digest == digest && manifest.size == size)
        };
        if !is_locked(image) {
            let (digest, size) = image;
            return Err(Message::new(format!(
                "its index names {digest} with {size} bytes, and its lock does not"
            ))
            .hint("do not use this bundle")
            .into());
        }
    }
    let places = *entries
        .get(oci_layout::STORAGE)
        .ok_or("has no placement document")?;
    let lock_digest = Digest::of(lock_text);
    let storage = Placement::read(places, &lock)?;
    let recompression = proof.map_or(Ok(Recompression::default()), Recompression::read)?;
    recompression.check(&storage)?;
    Ok(BundleHeader {
        signature: match (signature, trust) {
            (None, _) => None,
            (Some(text), []) => BundleSignature::claimed(text, &lock.name, &lock_digest),
            (Some(text), _) => {
                compare(statement.as_ref(), &lock.name, &lock_digest)?;
                signature::key_id(text).map(|key| BundleSignature {
                    key,
                    verified: true,
                    revision: statement.and_then(|statement| statement.revision),
                })
            }
        },
        lock,
        lock_digest,
        storage,
        recompression,
        documents: oci_layout::Documents {
            index: index.to_vec(),
            manifest: manifest.to_vec(),
            lock: lock_text.to_vec(),
            config: config.unwrap_or(oci_layout::EMPTY_CONFIG).to_vec(),
            signature: signature.map(|text| text.as_bytes().to_vec()),
        },
    })
}

/// The documents that an index refers to.
struct Texts<'a> {
    manifest: &'a [u8],
    lock: &'a [u8],
    /// The configuration, if it is there. Earlier programs that signed or copied a bundle have left it out.
    config: Option<&'a [u8]>,
    /// The configuration if it is a recompression document.
    proof: Option<&'a [u8]>,
}

fn documents<'a>(index: &[u8], entries: &BTreeMap<String, &'a [u8]>) -> Result<Texts<'a>, Message> {
    let pick = |named: Option<(Digest, u64)>, what: &str| -> Result<&'a [u8], Message> {
        let (digest, size) =
            named.ok_or_else(|| format!("is not a kubexm bundle: it does not name its {what}"))?;
        let content = *entries
            .get(oci_layout::blob_path(&digest).as_str())
            .ok_or_else(|| format!("does not contain its {what}"))?;
        if Digest::of(content) != digest || content.len() as u64 != size {
            return Err(
                Message::new(format!("its {what} was changed")).hint("copy the bundle again")
            );
        }
        Ok(content)
    };
    let manifest = pick(oci_layout::manifest_in_index(index), "artifact manifest")?;
    let lock = oci_layout::document_in_manifest(manifest, oci_layout::LOCK_TYPE);
    let named = oci_layout::config_in_manifest(manifest);
    let named = named.filter(|config| {
        let (digest, _) = config.named;
        entries.contains_key(oci_layout::blob_path(&digest).as_str())
    });
    let is_proof = named.as_ref().is_some_and(|config| config.is_recompression);
    let config = named.map(|config| pick(Some(config.named), "configuration"));
    let config = config.transpose()?;
    Ok(Texts {
        manifest,
        lock: pick(lock, "lock")?,
        config,
        proof: config.filter(|_| is_proof),
    })
}

/// Compares what a trusted key states about a bundle with the bundle.
fn compare(statement: Option<&Statement>, name: &str, lock: &Digest) -> Result<(), HeaderError> {
    let other = statement.filter(|statement| statement.name != name || statement.lock != *lock);
    let Some(other) = other else { return Ok(()) };
    Err(HeaderError::Untrusted(Message::new(format!("its signature is for the bundle '{}' with the lock {}, but it is the bundle '{name}' with the lock {lock}", other.name.escape_default(), other.lock)).hint("do not use this bundle")))
}

/// Reads the tar of a header. It accepts only what kubexm writes, header for header: regular files with the
/// names of the layout, each once. It refuses links, devices, long names and other paths.
struct Tar<R> {
    /// The header, and one byte more if there is one.
    source: R,
    /// Size of the header in bytes, as the seek table states it.
    size: u64,
    /// Number of bytes that were read.
    read: u64,
}

impl<R: Read> Tar<R> {
    /// Reads entries until there are `count`, or until the end. The names must be new.
    fn read_entries(
        &mut self,
        entries: &mut BTreeMap<String, Vec<u8>>,
        count: usize,
    ) -> Result<(), Message> {
        loop {
            if entries.len() == count && count < ENTRIES {
                return Ok(());
            }
            let Some((name, content)) = self.next_entry()? else {
                return Ok(());
            };
            let shown = name.escape_default();
            if entries.contains_key(&name) {
                return Err(
                    Message::new(format!("its header has the entry '{shown}' twice"))
                        .hint("do not use this bundle"),
                );
            }
            if entries.len() == ENTRIES {
                return Err(
                    Message::new(format!("its header has more than {ENTRIES} entries"))
                        .hint("do not use this bundle"),
                );
            }
            entries.insert(name, content);
        }
    }

    /// Returns the name and the content of the next entry, or `None` at the end.
    fn next_entry(&mut self) -> Result<Option<(String, Vec<u8>)>, Message> {
        let header = self.bytes(TAR_BLOCK)?;
        if header.is_empty() {
            return if self.read == self.size {
                Ok(None)
            } else {
                Err(self.ends_early())
            };
        }
        if header.len() as u64 != TAR_BLOCK {
            return Err(self.ends_early());
        }
        let unreadable = || {
            Message::new("its header is not a valid tar")
                .hint("copy the bundle again")
                .to_owned()
        };
        let (name, size) = name_and_size(&header).ok_or_else(unreadable)?;
        let shown = name.escape_default();
        if !is_ours(&name) || header[..] != entry_header(&name, size) {
            return Err(Message::new(format!(
                "its header has an entry '{shown}' that the format does not allow"
            ))
            .hint("do not use this bundle"));
        }
        let padded = size
            .checked_next_multiple_of(TAR_BLOCK)
            .ok_or_else(unreadable)?;
        let mut content = self.bytes(padded)?;
        if content.len() as u64 != padded {
            return Err(self.ends_early());
        }
        // `size` is at most `padded`, which is the length of a vector.
        content.truncate(size as usize);
        if let Some(digits) = name.strip_prefix("blobs/sha256/")
            && Digest::of(&content).hex() != digits
        {
            return Err(Message::new(format!(
                "its header's entry '{shown}' does not have the digest in its name"
            ))
            .hint("copy the bundle again"));
        }
        Ok(Some((name, content)))
    }

    /// Reads up to `count` bytes; fewer at the end.
    fn bytes(&mut self, count: u64) -> Result<Vec<u8>, Message> {
        let mut bytes = Vec::new();
        let result: io::Result<usize> = self.source.by_ref().take(count).read_to_end(&mut bytes);
        result.map_err(|_| {
            Message::new("its header cannot be decompressed")
                .hint("copy the bundle again")
                .to_owned()
        })?;
        self.read += bytes.len() as u64;
        Ok(bytes)
    }

    /// Returns why the header ends inside an entry.
    fn ends_early(&self) -> Message {
        if self.read == self.size {
            Message::new("its header is not a valid tar")
                .hint("copy the bundle again")
                .to_owned()
        } else {
            Message::new("its header does not have the size in its seek table")
                .hint("copy the bundle again")
                .to_owned()
        }
    }
}

fn name_and_size(header: &[u8]) -> Option<(String, u64)> {
    let header = tar::Header::from_byte_slice(header);
    // The raw field, because the `tar` crate joins prefixes and converts paths.
    let raw = header.as_old().name;
    let end = raw.iter().position(|byte| *byte == 0).unwrap_or(raw.len());
    let name = String::from_utf8_lossy(&raw[..end]).into_owned();
    Some((name, header.entry_size().ok()?))
}

fn is_ours(name: &str) -> bool {
    name == "oci-layout"
        || name == "index.json"
        || name == oci_layout::SIGNATURE
        || name == oci_layout::STORAGE
        || name
            .strip_prefix("blobs/sha256/")
            .is_some_and(|hex| hex.len() == 64 && hex.parse::<Digest>().is_ok())
}

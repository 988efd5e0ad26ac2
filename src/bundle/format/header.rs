//! The header of a bundle: its first zstd frame, parsed as untrusted input.

use std::collections::BTreeMap;

use crate::format::oci_layout;
use crate::format::placement::Placement;
use crate::format::tar_entry::{TAR_BLOCK, entry_header};
use crate::lock::Lock;
use crate::signature;
use kubexm_types::{Digest, PublicKey};

/// `oci-layout`, `index.json`, its signature, the artifact manifest, the lock, the empty configuration
/// and the placement document.
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
    /// The documents as they are in the file.
    pub documents: oci_layout::Documents,
}

/// Why a header is refused, as the rest of a sentence about the bundle.
#[derive(Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// It is damaged, or it is not a header.
    Damaged(String),
    /// No trusted key signed it.
    Untrusted(String),
}

impl From<String> for HeaderError {
    fn from(reason: String) -> Self {
        Self::Damaged(reason)
    }
}

impl From<&str> for HeaderError {
    fn from(reason: &str) -> Self {
        Self::Damaged(reason.to_owned())
    }
}

/// Parses the header and verifies every document against the digests above it. If `trust` is not empty,
/// one of its keys must have signed the index; this is checked before anything else is parsed.
///
/// # Errors
/// The header is damaged or not trusted.
pub fn read(head: &[u8], trust: &[PublicKey]) -> Result<BundleHeader, HeaderError> {
    from_entries(&entries(head)?, trust)
}

/// Does what [`read`] does, from the names and contents of the entries.
///
/// # Errors
/// As [`read`].
pub fn from_entries(
    entries: &BTreeMap<String, &[u8]>,
    trust: &[PublicKey],
) -> Result<BundleHeader, HeaderError> {
    let layout = entries.get("oci-layout").copied();
    if layout != Some(oci_layout::LAYOUT.as_bytes()) {
        return Err("is not a kubexm bundle: it has no OCI image layout of version 1.0.0".into());
    }
    let index = *entries.get("index.json").ok_or("has no index.json")?;
    let signature = entries
        .get(oci_layout::SIGNATURE)
        .map(|text| std::str::from_utf8(text).map_err(|_| "has a signature that is not UTF-8"))
        .transpose()?;
    if !trust.is_empty() {
        signature::check(index, signature, trust).map_err(HeaderError::Untrusted)?;
    }
    let (manifest, lock_text) = documents(index, entries)?;
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
            return Err(format!(
                "its index names {digest} with {size} bytes, and its lock does not\nhint: do not use this bundle"
            )
            .into());
        }
    }
    let places = *entries
        .get(oci_layout::STORAGE)
        .ok_or("has no placement document")?;
    let storage = Placement::read(places, &lock)?;
    Ok(BundleHeader {
        lock,
        lock_digest: Digest::of(lock_text),
        storage,
        documents: oci_layout::Documents {
            index: index.to_vec(),
            manifest: manifest.to_vec(),
            lock: lock_text.to_vec(),
            signature: signature.map(|text| text.as_bytes().to_vec()),
        },
    })
}

/// Returns the artifact manifest and the lock that an index refers to.
fn documents<'a>(
    index: &[u8],
    entries: &BTreeMap<String, &'a [u8]>,
) -> Result<(&'a [u8], &'a [u8]), String> {
    let pick = |named: Option<(Digest, u64)>, what: &str| -> Result<&'a [u8], String> {
        let (digest, size) =
            named.ok_or_else(|| format!("is not a kubexm bundle: it does not name its {what}"))?;
        let content = *entries
            .get(oci_layout::blob_path(&digest).as_str())
            .ok_or_else(|| format!("does not contain its {what}"))?;
        if Digest::of(content) != digest || content.len() as u64 != size {
            return Err(format!(
                "its {what} was changed\nhint: copy the bundle again"
            ));
        }
        Ok(content)
    };
    let manifest = pick(oci_layout::manifest_in_index(index), "artifact manifest")?;
    let lock = oci_layout::document_in_manifest(manifest, oci_layout::LOCK_TYPE);
    Ok((manifest, pick(lock, "lock")?))
}

/// Returns names and contents. It accepts only what kubexm writes, header for header: regular files with
/// the names of the layout, each once. It refuses links, devices, long names and other paths.
fn entries(head: &[u8]) -> Result<BTreeMap<String, &[u8]>, String> {
    let unreadable = || "its header is not a valid tar\nhint: copy the bundle again".to_owned();
    let block = TAR_BLOCK as usize;
    let mut entries = BTreeMap::new();
    let mut rest = head;
    while !rest.is_empty() {
        let (header, after) = rest.split_at_checked(block).ok_or_else(unreadable)?;
        let (name, size) = name_and_size(header).ok_or_else(unreadable)?;
        let shown = name.escape_default();
        if !is_ours(&name) || *header != entry_header(&name, size) {
            return Err(format!(
                "its header has an entry '{shown}' that the format does not allow\nhint: do not use this bundle"
            ));
        }
        let length = usize::try_from(size).map_err(|_| unreadable())?;
        let padded = length
            .checked_next_multiple_of(block)
            .ok_or_else(unreadable)?;
        let (content, next) = after.split_at_checked(padded).ok_or_else(unreadable)?;
        if let Some(digits) = name.strip_prefix("blobs/sha256/")
            && Digest::of(&content[..length]).hex() != digits
        {
            return Err(format!(
                "its header's entry '{shown}' does not have the digest in its name\nhint: copy the bundle again"
            ));
        }
        if entries.insert(name.clone(), &content[..length]).is_some() {
            return Err(format!(
                "its header has the entry '{shown}' twice\nhint: do not use this bundle"
            ));
        }
        if entries.len() > ENTRIES {
            return Err(format!(
                "its header has more than {ENTRIES} entries\nhint: do not use this bundle"
            ));
        }
        rest = next;
    }
    Ok(entries)
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

//! The placement document: the order, the groups and the encodings of the blobs in a bundle
//! (`FORMAT.md`, section 6).
//!
//! The lock lists the content of a bundle; this document describes how it is stored. Blobs are in groups,
//! and each group has its own zstd frames. A group with one chunk per blob stores the blobs one after the
//! other. A group with more chunks splits each blob into chunks of nearly equal length and stores all first
//! chunks, then all second chunks, and so on. Programs that share code are then close to each other, so
//! that a small window finds what they have in common.
//!
//! A gzip stream that kubexm can reproduce bit for bit can be stored decompressed, and ELF programs can be
//! stored filtered ([`elf_filter`]).

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use gzip_exact::{Encoder, Recipe};
use serde::{Deserialize, Serialize};

use crate::lock::Lock;
use crate::lock::text;
use kubexm_types::{Digest, Message};

/// Maximum number of chunks per blob.
pub const MAX_CHUNKS: u32 = 1024;
/// Maximum number of blobs of a group with several chunks: each needs memory when the group is read.
pub const MAX_INTERLEAVED: usize = 128;
/// Maximum compression ratio of DEFLATE.
const DEFLATE_RATIO: u64 = 1032;
/// Maximum size of a gzip header in the document, in bytes.
pub const LONGEST_HEADER: usize = 2048;

/// Gzip blobs that can be stored decompressed, by their digest.
pub type DecompressedGzips = BTreeMap<Digest, DecompressedGzip>;

/// The document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Placement {
    /// Version of this document. This program writes 3. It reads 1, which has no filter, and 2, whose
    /// filter differs, if nothing is filtered.
    pub storage_version: u32,
    /// The groups in the order of the file.
    pub groups: Vec<Group>,
    /// Set in an incremental bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Base>,
}

/// The version alone, which every version of the document has.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Versioned {
    storage_version: u32,
}

/// The base of an incremental bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Base {
    /// The name of the base bundle or of the site.
    pub name: String,
    /// SHA-256 of the hexadecimal digests of all blobs of the base, in ascending order. For information
    /// only.
    pub digest: Digest,
    /// Blobs that only the base contains; never empty.
    pub blobs: BTreeSet<Digest>,
}

/// Blobs that share zstd frames.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Group {
    /// Number of chunks of each blob.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub pieces: u32,
    /// The blobs, in the order of their chunks.
    pub entries: Vec<Entry>,
}

/// How a blob is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Entry {
    /// Digest of the blob, as in the lock.
    pub blob: Digest,
    /// Set if the blob is stored as decompressed gzip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened: Option<DecompressedGzip>,
    /// Whether the stored form is filtered by the ELF filter, which keeps the length.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub filtered: bool,
}

impl Entry {
    /// Returns the entry of a blob that is stored as published.
    pub fn kept(blob: Digest) -> Self {
        Self {
            blob,
            opened: None,
            filtered: false,
        }
    }
}

/// Reproduces a gzip stream from its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GzipRecipe {
    /// This program has the encoder.
    Known(Recipe),
    /// A newer program wrote the bundle. The content is readable, and the gzip stream is not.
    Unknown {
        /// The header of the gzip member.
        header: Vec<u8>,
        /// The name of the encoder.
        encoder: String,
    },
}

impl GzipRecipe {
    /// Returns the recipe if this program has its encoder.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] with the name of the encoder.
    pub fn known(&self) -> io::Result<&Recipe> {
        match self {
            Self::Known(recipe) => Ok(recipe),
            Self::Unknown { encoder, .. } => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                Message::new(format!(
                    "this kubexm does not have its gzip encoder '{encoder}'"
                ))
                .hint("use the kubexm that built the bundle, or a newer one"),
            )),
        }
    }

    /// Returns the header of the gzip member.
    pub fn header(&self) -> &[u8] {
        match self {
            Self::Known(recipe) => &recipe.header,
            Self::Unknown { header, .. } => header,
        }
    }

    /// Returns the name of the encoder.
    pub fn encoder(&self) -> String {
        match self {
            Self::Known(recipe) => recipe.encoder.to_string(),
            Self::Unknown { encoder, .. } => encoder.clone(),
        }
    }
}

impl From<Recipe> for GzipRecipe {
    fn from(recipe: Recipe) -> Self {
        Self::Known(recipe)
    }
}

/// The decompressed content of a gzip stream, and the recipe that reproduces the stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Text", into = "Text")]
pub struct DecompressedGzip {
    /// SHA-256 of the content.
    pub content: Digest,
    /// Size of the content in bytes.
    pub size: u64,
    /// Reproduces the stream.
    pub recipe: GzipRecipe,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Text {
    content: Digest,
    size: u64,
    header: String,
    encoder: String,
}

impl From<DecompressedGzip> for Text {
    fn from(opened: DecompressedGzip) -> Self {
        Self {
            content: opened.content,
            size: opened.size,
            header: hex::encode(opened.recipe.header()),
            encoder: opened.recipe.encoder(),
        }
    }
}

impl TryFrom<Text> for DecompressedGzip {
    type Error = String;

    fn try_from(text: Text) -> Result<Self, String> {
        let header = Some(&text.header)
            .filter(|header| header.len() <= 2 * LONGEST_HEADER)
            .and_then(|header| hex::decode(header).ok())
            .ok_or("a gzip header that is not valid")?;
        let recipe = match text.encoder.parse::<Encoder>() {
            Ok(encoder) => GzipRecipe::Known(Recipe { header, encoder }),
            Err(_) if text::is_printable(&text.encoder) => GzipRecipe::Unknown {
                header,
                encoder: text.encoder,
            },
            Err(_) => return Err("an encoder with an invalid name".to_owned()),
        };
        Ok(Self {
            content: text.content,
            size: text.size,
            recipe,
        })
    }
}

fn invalid(problem: &str) -> Message {
    Message::new(format!("its placement document {problem}")).hint("do not use this bundle")
}

fn one() -> u32 {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_one(pieces: &u32) -> bool {
    *pieces == 1
}

impl Placement {
    /// The version that this program writes.
    pub const VERSION: u32 = 3;

    /// Places every blob as published in its own group, in the order of the digests.
    pub fn plain(lock: &Lock) -> Self {
        let alone = |blob| Group {
            pieces: 1,
            entries: vec![Entry::kept(blob)],
        };
        Self {
            storage_version: Self::VERSION,
            groups: lock.blobs().keys().copied().map(alone).collect(),
            base: None,
        }
    }

    /// Removes the blobs that the base contains.
    #[must_use]
    pub fn without(mut self, base: Base) -> Self {
        self.retain(|blob| !base.blobs.contains(blob));
        self.base = Some(base);
        self
    }

    /// Returns the placement for the blobs of `new`: in the groups of this placement where it has them, in
    /// the groups of `new` otherwise.
    #[must_use]
    pub fn changed_to(mut self, mut new: Self) -> Self {
        let blobs = |placement: &Self| -> BTreeSet<Digest> {
            let entries = placement.groups.iter().flat_map(|group| &group.entries);
            entries.map(|entry| entry.blob).collect()
        };
        let (here, wanted) = (blobs(&self), blobs(&new));
        self.retain(|blob| wanted.contains(blob));
        new.retain(|blob| !here.contains(blob));
        self.groups.append(&mut new.groups);
        Self {
            groups: self.groups,
            ..new
        }
    }

    /// Removes the other blobs.
    fn retain(&mut self, keep: impl Fn(&Digest) -> bool) {
        for group in &mut self.groups {
            group.entries.retain(|entry| keep(&entry.blob));
            if group.entries.len() == 1 {
                group.pieces = 1;
            }
        }
        self.groups.retain(|group| !group.entries.is_empty());
    }

    /// Returns the blobs of the lock that are not in the file.
    pub fn absent(&self) -> impl Iterator<Item = &Digest> {
        self.base.iter().flat_map(|base| &base.blobs)
    }

    /// Parses the document as untrusted input and validates it against the lock.
    ///
    /// # Errors
    /// The problem, as the rest of a sentence about the bundle.
    pub fn read(text: &[u8], lock: &Lock) -> Result<Self, Message> {
        let unreadable =
            |error: serde_json::Error| format!("its placement document cannot be parsed: {error}");
        let version: Versioned = serde_json::from_slice(text).map_err(unreadable)?;
        let (got, newest) = (version.storage_version, Self::VERSION);
        if !(1..=newest).contains(&got) {
            return Err(Message::new(format!(
                "its placement document has version {got}, but this kubexm reads 1 to {newest}"
            ))
            .hint("use a newer kubexm"));
        }
        let storage: Self = serde_json::from_slice(text).map_err(unreadable)?;
        let mut entries = storage.groups.iter().flat_map(|group| &group.entries);
        if storage.storage_version < Self::VERSION && entries.any(|entry| entry.filtered) {
            return Err(
                Message::new("an earlier kubexm stored its programs in another form").hint(
                    "use the kubexm that \
                 built the bundle, or build the bundle again",
                ),
            );
        }
        storage.check(lock)?;
        Ok(storage)
    }

    /// Checks that every blob of the lock has exactly one entry, and that all values are within limits.
    fn check(&self, lock: &Lock) -> Result<(), Message> {
        let mut unplaced: BTreeMap<&Digest, u64> = lock
            .blobs()
            .iter()
            .map(|(digest, blob)| (digest, blob.size))
            .collect();
        for group in &self.groups {
            let beside = group.pieces > 1 && group.entries.len() > MAX_INTERLEAVED;
            if group.pieces == 0 || group.pieces > MAX_CHUNKS || beside || group.entries.is_empty()
            {
                return Err(invalid("has an invalid group"));
            }
            for entry in &group.entries {
                let Some(size) = unplaced.remove(&entry.blob) else {
                    return Err(invalid(&format!(
                        "does not match its lock: {} is in it twice, or is not in the lock",
                        entry.blob
                    )));
                };
                let opened = entry.opened.as_ref();
                if opened.is_some_and(|o| o.size > size.saturating_mul(DEFLATE_RATIO)) {
                    return Err(invalid(&format!(
                        "has an invalid size for the content of {}",
                        entry.blob
                    )));
                }
            }
        }
        if let Some(base) = &self.base {
            if base.blobs.is_empty() {
                return Err(invalid("has an empty `base.blobs`"));
            }
            if !text::is_printable(&base.name) {
                return Err(invalid("has an invalid `base.name`"));
            }
        }
        for digest in self.absent() {
            if unplaced.remove(digest).is_none() {
                return Err(invalid(&format!(
                    "does not match its lock: {digest} must not be in `base.blobs`"
                )));
            }
        }
        match unplaced.pop_first() {
            None => Ok(()),
            Some((digest, _)) => Err(Message::new(format!(
                "its placement document does not match its lock: {digest} has no entry"
            ))
            .hint("copy the bundle again")),
        }
    }
}

//! How blobs lie in a bundle: in which order, which stand together, and which are held opened up.
//!
//! The lock says *what* is in a bundle; this document, which lies in the head beside it, says *how*.
//! Blobs stand in groups, each group in zstd frames of its own. In a group of one piece they follow
//! one another. In a group of more, each is cut in so many pieces of nearly equal length, and first
//! come all first pieces, then all second ones, and so on: programs of one family then run side by
//! side, what they share is close together, and a small window finds it.
//!
//! A gzip stream that can be made again bit for bit may lie there as its content, and programs as what
//! compresses better ([`elf_filter`]).

use std::collections::{BTreeMap, BTreeSet};

use gzip_exact::{Encoder, Recipe};
use serde::{Deserialize, Serialize};

use crate::lock::Lock;
use crate::lock::validate;
use kubexm_types::Digest;

/// Pieces that a group's blobs may be cut in.
pub const MOST_PIECES: u32 = 1024;
/// Blobs that may stand side by side in pieces: each takes memory of its own when it is read.
pub const MOST_BESIDE: usize = 128;
/// DEFLATE makes nothing smaller than this many times.
const DEFLATE_RATIO: u64 = 1032;
/// Bytes of the longest gzip header that the document may contain.
pub const LONGEST_HEADER: usize = 2048;

/// What became of gzip blobs that can be held opened up.
pub type DecompressedGzips = BTreeMap<Digest, DecompressedGzip>;

/// The document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Placement {
    /// Format of this document. This program writes 3, and reads 1, which knows nothing filtered, and
    /// 2, which filters in another way, where nothing is.
    pub storage_version: u32,
    /// Groups in the order in which they lie in the file.
    pub groups: Vec<Group>,
    /// Set where the file carries only what the other side lacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Base>,
}

/// The document's version, whatever else a later version has in it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Versioned {
    storage_version: u32,
}

/// What a bundle leans on that carries only a difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Base {
    /// What it is called: the bundle's name, or the site's.
    pub name: String,
    /// Names the set of its blobs; nothing depends on it. SHA-256 of the hexadecimal digits of all its
    /// blobs, in ascending order.
    pub digest: Digest,
    /// Blobs that are there and not here; never empty.
    pub blobs: BTreeSet<Digest>,
}

/// Blobs that share frames.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Group {
    /// Pieces that each blob is cut in.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub pieces: u32,
    /// The blobs, in the order in which their pieces lie.
    pub entries: Vec<Entry>,
}

/// A blob's place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Entry {
    /// The blob, as the lock names it.
    pub blob: Digest,
    /// Set where not the blob lies there but what is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened: Option<DecompressedGzip>,
    /// Set where programs in it lie there as what compresses better; no byte more or less.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub filtered: bool,
}

impl Entry {
    /// A blob as it came.
    pub fn kept(blob: Digest) -> Self {
        Self {
            blob,
            opened: None,
            filtered: false,
        }
    }
}

/// The content of a gzip stream, and how the stream is made of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Text", into = "Text")]
pub struct DecompressedGzip {
    /// SHA-256 of the content.
    pub content: Digest,
    /// Bytes of the content.
    pub size: u64,
    /// Makes the stream again.
    pub recipe: Recipe,
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
            header: hex::encode(opened.recipe.header),
            encoder: opened.recipe.encoder.to_string(),
        }
    }
}

impl TryFrom<Text> for DecompressedGzip {
    type Error = String;

    fn try_from(text: Text) -> Result<Self, String> {
        let header = Some(&text.header)
            .filter(|header| header.len() <= 2 * LONGEST_HEADER)
            .and_then(|header| hex::decode(header).ok())
            .ok_or("a gzip header that is none")?;
        let encoder: Encoder = text
            .encoder
            .parse()
            .map_err(|error| format!("encoder '{}': {error}", text.encoder.escape_default()))?;
        Ok(Self {
            content: text.content,
            size: text.size,
            recipe: Recipe { header, encoder },
        })
    }
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_one(pieces: &u32) -> bool {
    *pieces == 1
}

impl Placement {
    /// The one format this program writes.
    pub const VERSION: u32 = 3;

    /// Every blob as it came and for itself, in the order of digests.
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

    /// The same without what the other side has.
    #[must_use]
    pub fn without(mut self, base: Base) -> Self {
        for group in &mut self.groups {
            group
                .entries
                .retain(|entry| !base.blobs.contains(&entry.blob));
            if group.entries.len() == 1 {
                group.pieces = 1;
            }
        }
        self.groups.retain(|group| !group.entries.is_empty());
        self.base = Some(base);
        self
    }

    /// Blobs of the lock that are not in the file.
    pub fn absent(&self) -> impl Iterator<Item = &Digest> {
        self.base.iter().flat_map(|base| &base.blobs)
    }

    /// Reads the document's text, which a stranger may have written, and holds it against the lock.
    ///
    /// # Errors
    /// What is wrong, as the rest of a sentence about the bundle.
    pub fn read(text: &[u8], lock: &Lock) -> Result<Self, String> {
        let unreadable =
            |error: serde_json::Error| format!("its list of places cannot be read: {error}");
        let version: Versioned = serde_json::from_slice(text).map_err(unreadable)?;
        let (got, own) = (version.storage_version, Self::VERSION);
        if !(1..=own).contains(&got) {
            return Err(format!(
                "its list of places has format {got}; this kubexm reads up to {own}: use a newer one"
            ));
        }
        let storage: Self = serde_json::from_slice(text).map_err(unreadable)?;
        let mut entries = storage.groups.iter().flat_map(|group| &group.entries);
        if storage.storage_version < Self::VERSION && entries.any(|entry| entry.filtered) {
            return Err(
                "its programs lie in it as an earlier kubexm had them: open it with the one that \
                 made it, or build it anew"
                    .into(),
            );
        }
        storage.check(lock)?;
        Ok(storage)
    }

    /// Every blob of the lock has one place, and no place asks for more than it may.
    fn check(&self, lock: &Lock) -> Result<(), String> {
        let mut unplaced: BTreeMap<&Digest, u64> = lock
            .blobs()
            .iter()
            .map(|(digest, blob)| (digest, blob.size))
            .collect();
        for group in &self.groups {
            let beside = group.pieces > 1 && group.entries.len() > MOST_BESIDE;
            if group.pieces == 0 || group.pieces > MOST_PIECES || beside || group.entries.is_empty()
            {
                return Err("its list of places has a group that cannot be; do not use it".into());
            }
            for entry in &group.entries {
                let Some(size) = unplaced.remove(&entry.blob) else {
                    return Err(format!(
                        "its list of places does not fit its lock: {} is in it twice, or should not \
                         be; do not use it",
                        entry.blob
                    ));
                };
                let opened = entry.opened.as_ref();
                if opened.is_some_and(|o| o.size > size.saturating_mul(DEFLATE_RATIO)) {
                    return Err(format!(
                        "its list of places gives {} a content that cannot be; do not use it",
                        entry.blob
                    ));
                }
            }
        }
        if let Some(base) = &self.base {
            if base.blobs.is_empty() {
                return Err("its list of places leans on nothing; do not use it".into());
            }
            if !validate::is_printable(&base.name) {
                return Err(
                    "its list of places leans on a name that cannot be; do not use it".into(),
                );
            }
        }
        for digest in self.absent() {
            if unplaced.remove(digest).is_none() {
                return Err(format!(
                    "its list of places does not fit its lock: {digest} must not be elsewhere; do \
                     not use it"
                ));
            }
        }
        match unplaced.pop_first() {
            None => Ok(()),
            Some((digest, _)) => Err(format!(
                "its list of places does not fit its lock: {digest} has none; copy the bundle again"
            )),
        }
    }
}

//! The recompression document: the gzip blobs that the builder recompressed from their content, and compared
//! (`FORMAT.md`, section 5.3).
//!
//! It is the configuration of the artifact manifest, so that the signature covers it. It does not depend on
//! the placement: a complete bundle and an incremental one have the same.

use serde::{Deserialize, Serialize};

use crate::format::placement::{DecompressedGzip, DecompressedGzips, Placement};
use kubexm_types::{Digest, Message};

/// Media type of the document.
pub const RECOMPRESSION_TYPE: &str = "application/vnd.kubexm.recompression.v1+json";

/// The document. Bundles of earlier versions do not have it, and prove nothing.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recompression {
    /// The content and the recipe of each blob.
    gzip: DecompressedGzips,
}

impl Recompression {
    /// Returns the document, or `None` if it would name no blob.
    pub fn of(gzip: &DecompressedGzips) -> Option<Self> {
        (!gzip.is_empty()).then(|| Self { gzip: gzip.clone() })
    }

    /// Parses the document as untrusted input.
    ///
    /// # Errors
    /// The problem, as the rest of a sentence about the bundle.
    pub fn read(text: &[u8]) -> Result<Self, Message> {
        serde_json::from_slice(text).map_err(|error| {
            Message::new(format!(
                "its recompression document cannot be parsed: {error}"
            ))
            .hint("do not use this bundle")
        })
    }

    /// Returns whether the builder made the blob from this content.
    pub fn covers(&self, blob: &Digest, opened: &DecompressedGzip) -> bool {
        let of = |opened: &DecompressedGzip| (opened.content, opened.size);
        self.gzip.get(blob).map(of) == Some(of(opened))
    }

    /// Returns whether the builder made the blob from this content with this recipe.
    pub fn proves(&self, blob: &Digest, opened: &DecompressedGzip) -> bool {
        self.gzip.get(blob) == Some(opened)
    }

    /// Checks that a placement has the content of each blob that is named here. The recipes can differ.
    ///
    /// # Errors
    /// A blob has another content, as the rest of a sentence about the bundle.
    pub fn check(&self, placement: &Placement) -> Result<(), Message> {
        let mut entries = placement.groups.iter().flat_map(|group| &group.entries);
        let other = entries.find(|entry| match (&entry.opened, self.gzip.get(&entry.blob)) {
            (Some(placed), Some(proven)) => {
                (placed.content, placed.size) != (proven.content, proven.size)
            }
            _ => false,
        });
        other.map_or(Ok(()), |entry| {
            Err(Message::new(format!(
                "its placement document has another content of {} than its recompression document",
                entry.blob
            ))
            .hint("do not use this bundle"))
        })
    }
}

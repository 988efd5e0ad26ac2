//! The inventory of a site: a small document that lists its blobs. A bundle that is built for the site
//! contains only other blobs (`FORMAT.md`, section 13).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Bundle;
use crate::format::placement::Base;
use crate::lock::text;
use kubexm_types::{Digest, Message};

/// Maximum size of an inventory, in bytes.
pub const LARGEST: u64 = 64 * 1024 * 1024;

/// The inventory of a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Inventory {
    /// Version of this document. This program writes and reads 1.
    pub inventory_version: u32,
    /// Name of the site.
    pub site: String,
    /// Bundles at the site.
    pub bundles: Vec<InventoryBundle>,
    /// All blobs at the site.
    pub blobs: BTreeSet<Digest>,
}

/// The version alone, which every version of the document has.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Versioned {
    inventory_version: u32,
}

/// A bundle at a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InventoryBundle {
    pub name: String,
    /// SHA-256 of the lock.
    pub lock: Digest,
}

impl Inventory {
    /// The version that this program writes.
    pub const VERSION: u32 = 1;

    /// Returns the inventory of a site with these bundles. Blobs of a base are not included.
    pub fn new(site: &str, bundles: &[Bundle]) -> Self {
        let entry = |bundle: &Bundle| InventoryBundle {
            name: bundle.lock().name.clone(),
            lock: bundle.lock_digest(),
        };
        Self {
            inventory_version: Self::VERSION,
            site: site.to_owned(),
            bundles: bundles.iter().map(entry).collect(),
            blobs: bundles
                .iter()
                .flat_map(|bundle| bundle.carried())
                .copied()
                .collect(),
        }
    }

    /// Returns whether a text is an inventory and not a lock.
    pub fn is_one(text: &str) -> bool {
        text.lines()
            .any(|line| line.starts_with("inventoryVersion:"))
    }

    /// Parses an inventory as untrusted input.
    ///
    /// # Errors
    /// The problem, as the rest of a sentence about the inventory.
    pub fn from_yaml(text: &str) -> Result<Self, Message> {
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! { max_anchors: 0, max_nodes: 2_000_000, max_events: 4_000_000, max_total_scalar_bytes: 64 * 1024 * 1024 },
            with_snippet: false,
        };
        let unreadable = |error: serde_saphyr::Error| format!("is not an inventory: {error}");
        let version: Versioned =
            serde_saphyr::from_str_with_options(text, options.clone()).map_err(unreadable)?;
        let (got, supported) = (version.inventory_version, Self::VERSION);
        if got != supported {
            return Err(Message::new(format!(
                "has version {got}, but this kubexm reads {supported}"
            ))
            .hint("use a newer kubexm"));
        }
        let inventory: Self =
            serde_saphyr::from_str_with_options(text, options).map_err(unreadable)?;
        let names = inventory.bundles.iter().map(|bundle| &bundle.name);
        for name in names.chain([&inventory.site]) {
            if !text::is_printable(name) {
                return Err(
                    "is not an inventory: it has a name that is empty, longer than 255 bytes or not \
                     printable"
                        .into(),
                );
            }
        }
        Ok(inventory)
    }

    /// Returns the base of a bundle with the blobs `wanted` for this site. Returns `None` if the site has
    /// none of them.
    pub fn base(&self, digest: Digest, wanted: &BTreeSet<Digest>) -> Option<Base> {
        let blobs: BTreeSet<Digest> = self.blobs.intersection(wanted).copied().collect();
        (!blobs.is_empty()).then(|| Base {
            name: self.site.clone(),
            digest,
            blobs,
        })
    }
}

//! What a site has: a small text that is carried out, so that the next bundle holds only the rest.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Bundle;
use crate::format::placement::Base;
use crate::lock::text;
use kubexm_types::Digest;

/// An inventory's text is no longer than this.
pub const LARGEST: u64 = 64 * 1024 * 1024;

/// What a site has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Inventory {
    /// Format of this document; this program writes and reads 1.
    pub inventory_version: u32,
    /// What the site is called.
    pub site: String,
    /// The bundles that are there.
    pub bundles: Vec<Held>,
    /// Every blob that is there, sorted.
    pub blobs: BTreeSet<Digest>,
}

/// The document's version, whatever else a later version has in it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Versioned {
    inventory_version: u32,
}

/// A bundle that a site has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Held {
    /// Its name.
    pub name: String,
    /// SHA-256 of its lock.
    pub lock: Digest,
}

impl Inventory {
    /// The one format this program writes.
    pub const VERSION: u32 = 1;

    /// What lies in these very bundles.
    pub fn of(site: &str, bundles: &[Bundle]) -> Self {
        let held = |bundle: &Bundle| Held {
            name: bundle.lock().name.clone(),
            lock: bundle.lock_digest(),
        };
        Self {
            inventory_version: Self::VERSION,
            site: site.to_owned(),
            bundles: bundles.iter().map(held).collect(),
            blobs: bundles
                .iter()
                .flat_map(|bundle| bundle.carried())
                .copied()
                .collect(),
        }
    }

    /// Whether a text claims to be an inventory, and not a lock.
    pub fn is_one(text: &str) -> bool {
        text.lines()
            .any(|line| line.starts_with("inventoryVersion:"))
    }

    /// Reads an inventory's text.
    ///
    /// # Errors
    /// What is wrong, as the rest of a sentence about it.
    pub fn from_yaml(text: &str) -> Result<Self, String> {
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! { max_anchors: 0, max_nodes: 2_000_000, max_events: 4_000_000, max_total_scalar_bytes: 64 * 1024 * 1024 },
            with_snippet: false,
        };
        let unreadable = |error: serde_saphyr::Error| format!("is not an inventory: {error}");
        let version: Versioned =
            serde_saphyr::from_str_with_options(text, options.clone()).map_err(unreadable)?;
        let (got, own) = (version.inventory_version, Self::VERSION);
        if got != own {
            return Err(format!(
                "has format {got}; this kubexm reads {own}: use a newer one"
            ));
        }
        let inventory: Self =
            serde_saphyr::from_str_with_options(text, options).map_err(unreadable)?;
        let names = inventory.bundles.iter().map(|held| &held.name);
        for name in names.chain([&inventory.site]) {
            if !text::is_printable(name) {
                return Err(
                    "is not an inventory: it has a name that is empty, longer than 255 bytes or not \
                     printable"
                        .to_owned(),
                );
            }
        }
        Ok(inventory)
    }

    /// What a bundle for this site need not carry, were its blobs `wanted`; `None` where that is
    /// nothing.
    pub fn base(&self, digest: Digest, wanted: &BTreeSet<Digest>) -> Option<Base> {
        let blobs: BTreeSet<Digest> = self.blobs.intersection(wanted).copied().collect();
        (!blobs.is_empty()).then(|| Base {
            name: self.site.clone(),
            digest,
            blobs,
        })
    }
}

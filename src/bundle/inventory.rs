//! What a site has: a small text that is carried out, so that the next bundle holds only the rest.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::storage::Base;
use super::{Bundle, plausible};
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
        let inventory: Self = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| format!("is no inventory: {error}"))?;
        let names = inventory.bundles.iter().map(|held| &held.name);
        for name in names.chain([&inventory.site]) {
            if !plausible::is_printable(name) {
                return Err("is no inventory: it has a name that cannot be".to_owned());
            }
        }
        match inventory.inventory_version {
            Self::VERSION => Ok(inventory),
            other => Err(format!(
                "has format {other}; this kubexm reads {}: use a newer one",
                Self::VERSION
            )),
        }
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

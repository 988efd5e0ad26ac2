//! Why the content of a bundle is trusted, for reports.

use std::collections::BTreeMap;

use serde::Serialize;

use kubexm_bundle::Lock;
pub use kubexm_bundle::lock::trust::{TrustBasis, TrustRecord};
use kubexm_bundle::read::publishers::Count;

use crate::diff::ItemKind;

/// The items that are trusted for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrustGroup {
    /// The reason.
    pub basis: TrustBasis,
    /// The items.
    pub items: Vec<TrustRecord>,
}

impl TrustGroup {
    /// Returns the number of images and files, with the user's own, in words.
    pub fn count(&self) -> String {
        count(self.items.iter())
    }
}

/// Groups the items of a lock by the reason to trust them, the strongest reason first.
pub fn groups(lock: &Lock) -> Vec<TrustGroup> {
    let groups = lock.trust().into_iter();
    groups
        .map(|(basis, items)| TrustGroup { basis, items })
        .collect()
}

/// Returns how many items were accepted without the signature that their publisher makes, in words, by the
/// prefix that allows it.
pub fn unsigned(groups: &[TrustGroup]) -> Vec<(String, String)> {
    let mut by_prefix: BTreeMap<String, Vec<&TrustRecord>> = BTreeMap::new();
    for item in groups.iter().flat_map(|group| &group.items) {
        if let Some(prefix) = &item.unsigned {
            by_prefix.entry(prefix.to_string()).or_default().push(item);
        }
    }
    let prefixes = by_prefix.into_iter();
    prefixes
        .map(|(prefix, items)| (prefix, count(items.into_iter())))
        .collect()
}

fn count<'a>(items: impl Iterator<Item = &'a TrustRecord>) -> String {
    let (images, files): (Vec<_>, Vec<_>) = items.partition(|item| item.kind == ItemKind::Image);
    let count = Count {
        images: images.len(),
        files: files.len(),
    };
    count.to_string()
}

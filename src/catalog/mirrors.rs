//! Sets of mirrors.

use kubexm_config::Mirrors;

use crate::error::CatalogError;
use crate::manifests;

/// Returns the names of the sets of mirrors.
pub fn mirror_sets() -> Vec<&'static str> {
    manifests::files("mirrors")
        .filter_map(|file| file.path().file_stem()?.to_str())
        .collect()
}

/// Returns a set of mirrors.
///
/// # Errors
/// The catalog does not contain the set.
pub fn mirrors(name: &str) -> Result<Mirrors, CatalogError> {
    let text = manifests::text(&format!("mirrors/{name}.yaml"));
    let text = text.ok_or_else(|| CatalogError::Unknown {
        name: format!("mirrors of {name}"),
        known: mirror_sets().join(", "),
    })?;
    kubexm_config::parse_mirrors(name, text).map_err(|problems| CatalogError::Broken {
        file: format!("mirrors/{name}.yaml"),
        reason: problems.to_string(),
    })
}

//! What the other side of the air gap already has, by bundles, locks and inventories.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::lock_file;
use kubexm_bundle::inventory::{InventoryBundle, LARGEST};
use kubexm_bundle::{Bundle, Inventory};
use kubexm_session::{CommandError, FileError};
use kubexm_types::Digest;

/// Combines all files into one inventory, with a digest that identifies its content. Returns `None`
/// without files.
pub fn read(paths: &[PathBuf]) -> Result<Option<(Inventory, Digest)>, CommandError> {
    let sites: Vec<Inventory> = paths
        .iter()
        .map(|path| inventory_of(path))
        .collect::<Result<_, _>>()?;
    let names = sites.iter().map(|site| site.site.clone());
    let Some(site) = names.reduce(|a, b| a + " and " + &b) else {
        return Ok(None);
    };
    let blobs = sites.iter().flat_map(|site| site.blobs.iter().copied());
    let together = Inventory {
        inventory_version: Inventory::VERSION,
        site,
        bundles: sites.iter().flat_map(|site| site.bundles.clone()).collect(),
        blobs: blobs.collect(),
    };
    let blobs: Vec<String> = together.blobs.iter().map(Digest::hex).collect();
    let digest = Digest::of(blobs.concat().as_bytes());
    Ok(Some((together, digest)))
}

/// Opens the bundles among the files. A build takes blobs from them instead of downloading them.
pub fn bundles(paths: &[PathBuf]) -> Result<Vec<Bundle>, CommandError> {
    let bundles = paths.iter().filter(|path| !is_text(path));
    bundles.map(|path| Ok(Bundle::open(path)?)).collect()
}

fn is_text(path: &Path) -> bool {
    let is_yaml = path.extension().is_some_and(|end| end == "yaml");
    is_yaml || small_text(path).is_some_and(|text| Inventory::is_one(&text))
}

/// Reads a bundle, a lock or an inventory. An incremental bundle counts for every blob of its lock: a
/// site that has it also has its base bundles.
fn inventory_of(path: &Path) -> Result<Inventory, CommandError> {
    if let Some(text) = small_text(path)
        && Inventory::is_one(&text)
    {
        let inventory = Inventory::from_yaml(&text);
        return Ok(inventory.map_err(|reason| FileError::new("read the inventory", path, reason))?);
    }
    let lock = lock_file::of_bundle_or_file(path)?;
    let text = serde_saphyr::to_string(&lock).map_err(CommandError::defect)?;
    let bundle = InventoryBundle {
        name: lock.name.clone(),
        lock: Digest::of(text.as_bytes()),
    };
    Ok(Inventory {
        inventory_version: Inventory::VERSION,
        site: lock.name.clone(),
        bundles: vec![bundle],
        blobs: lock.blobs().keys().copied().collect::<BTreeSet<_>>(),
    })
}

fn small_text(path: &Path) -> Option<String> {
    let found = std::fs::metadata(path).ok()?;
    let small = found.is_file() && found.len() <= LARGEST;
    small.then(|| std::fs::read_to_string(path).ok()).flatten()
}

//! `inventory`: lists the blobs that a site has, for an incremental build.

use std::path::PathBuf;

use serde::Serialize;

use kubexm_bundle::Inventory;
use kubexm_session::{BundleAccess, CommandError, text_file};

/// What to list.
#[derive(Debug, Clone)]
pub struct InventoryOptions {
    /// The bundles at the site.
    pub bundles: Vec<PathBuf>,
    /// How they are opened.
    pub access: BundleAccess,
    /// The name of the site.
    pub site: String,
    /// The path of the inventory.
    pub out: PathBuf,
}

/// The inventory that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InventoryReport {
    /// The path.
    pub path: PathBuf,
    /// The number of blobs.
    pub blobs: usize,
    /// The number of bundles.
    pub bundles: usize,
}

/// Writes the inventory of a site.
///
/// # Errors
/// A bundle cannot be read, or the inventory cannot be written.
pub fn inventory(options: &InventoryOptions) -> Result<InventoryReport, CommandError> {
    text_file::check(&options.out)?;
    let bundles = options.bundles.iter();
    let bundles: Vec<_> = bundles
        .map(|path| options.access.open(path))
        .collect::<Result<_, _>>()?;
    let inventory = Inventory::new(&options.site, &bundles);
    let text = serde_saphyr::to_string(&inventory).map_err(CommandError::defect)?;
    text_file::write(&options.out, &text)?;
    Ok(InventoryReport {
        path: options.out.clone(),
        blobs: inventory.blobs.len(),
        bundles: inventory.bundles.len(),
    })
}

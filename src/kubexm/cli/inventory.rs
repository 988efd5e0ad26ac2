//! `kubexm inventory`.

use std::path::PathBuf;

use clap::Args;

use super::bundle_args::AccessArgs;
use super::output::outln;
use super::{Failure, output};
use crate::report::Output;
use kubexm_bundling::inventory::{InventoryOptions, inventory};

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm inventory bundle.tar.zst -o site.inventory.yaml
  kubexm inventory a.tar.zst b.tar.zst --site north -o north.inventory.yaml")]
pub struct Inventory {
    /// The bundles at the site
    #[arg(required = true, value_name = "BUNDLE")]
    bundles: Vec<PathBuf>,
    /// The name of the site
    #[arg(long, value_name = "NAME", default_value = "the site")]
    site: String,
    /// Path of the inventory
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    access: AccessArgs,
}

/// Writes the inventory of a site.
pub fn run(arguments: &Inventory, output: Output) -> Result<(), Failure> {
    let report = inventory(&InventoryOptions {
        bundles: arguments.bundles.clone(),
        access: arguments.access.options(),
        site: arguments.site.clone(),
        out: arguments.out.clone(),
    })?;
    if output == Output::Json {
        return output::document("InventoryReport", &report);
    }
    let path = report.path.display();
    outln!(
        "{path}: {} blobs of {} bundles; `kubexm bundle build --base {path}` leaves them out",
        report.blobs,
        report.bundles
    );
    Ok(())
}

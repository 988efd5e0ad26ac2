//! What the other side has already, and `kubexm inventory`, which tells it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;

use super::Failure;
use super::bundle::any_lock;
use super::out::say;
use super::subject::Opening;
use kubexm_bundle::inventory::{Held, LARGEST};
use kubexm_bundle::{Bundle, Inventory};
use kubexm_types::Digest;

#[derive(Debug, Args)]
pub struct Take {
    /// The bundles that stay at the site
    #[arg(required = true, value_name = "BUNDLE")]
    bundles: Vec<PathBuf>,
    /// What the site is called
    #[arg(long, value_name = "NAME", default_value = "the site")]
    site: String,
    /// Where the inventory is written, to be carried out
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    opening: Opening,
}

/// Writes what a site has.
pub fn take(arguments: &Take) -> Result<(), Failure> {
    let open = |path: &PathBuf| arguments.opening.open(path);
    let bundles: Vec<_> = arguments
        .bundles
        .iter()
        .map(open)
        .collect::<Result<_, _>>()?;
    let inventory = Inventory::of(&arguments.site, &bundles);
    let path = &arguments.out;
    let failed =
        |error: &dyn std::fmt::Display| Failure::bundle(format!("{}: {error}", path.display()));
    let text = serde_saphyr::to_string(&inventory).map_err(|error| failed(&error))?;
    super::build::write_text(path, &text)?;
    say!(
        "{}: {} blobs of {} bundles; `kubexm bundle build --base {}` carries only the rest",
        path.display(),
        inventory.blobs.len(),
        inventory.bundles.len(),
        path.display()
    );
    Ok(())
}

/// What the other side has by all of these files together, with a digest that names it; `None` where
/// there are none.
pub fn read(paths: &[PathBuf]) -> Result<Option<(Inventory, Digest)>, Failure> {
    let sites: Vec<Inventory> = paths
        .iter()
        .map(|path| of(path))
        .collect::<Result<_, _>>()?;
    let Some(site) = sites
        .iter()
        .map(|site| site.site.clone())
        .reduce(|a, b| a + " and " + &b)
    else {
        return Ok(None);
    };
    let together = Inventory {
        inventory_version: Inventory::VERSION,
        site,
        bundles: sites.iter().flat_map(|site| site.bundles.clone()).collect(),
        blobs: sites
            .iter()
            .flat_map(|site| site.blobs.iter().copied())
            .collect(),
    };
    let blobs: Vec<String> = together.blobs.iter().map(Digest::hex).collect();
    let digest = Digest::of(blobs.concat().as_bytes());
    Ok(Some((together, digest)))
}

/// The bundles among these files: what is in them need not be downloaded.
pub fn bundles(paths: &[PathBuf]) -> Result<Vec<Bundle>, Failure> {
    let bundles = paths.iter().filter(|path| !is_text(path));
    bundles.map(|path| Ok(Bundle::open(path)?)).collect()
}

fn is_text(path: &Path) -> bool {
    let is_yaml = path.extension().is_some_and(|end| end == "yaml");
    is_yaml || small_text(path).is_some_and(|text| Inventory::is_one(&text))
}

/// What a bundle, a lock or an inventory tells. A bundle that carries a difference stands for all that
/// its lock names: who has it has what it leans on.
fn of(path: &Path) -> Result<Inventory, Failure> {
    if let Some(text) = small_text(path)
        && Inventory::is_one(&text)
    {
        let named = |reason| Failure::configuration(format!("{}: {reason}", path.display()));
        return Inventory::from_yaml(&text).map_err(named);
    }
    let lock = any_lock(path)?;
    let text = serde_saphyr::to_string(&lock).map_err(Failure::bundle)?;
    let held = Held {
        name: lock.name.clone(),
        lock: Digest::of(text.as_bytes()),
    };
    Ok(Inventory {
        inventory_version: Inventory::VERSION,
        site: lock.name.clone(),
        bundles: vec![held],
        blobs: lock.blobs().keys().copied().collect::<BTreeSet<_>>(),
    })
}

fn small_text(path: &Path) -> Option<String> {
    let found = std::fs::metadata(path).ok()?;
    let small = found.is_file() && found.len() <= LARGEST;
    small.then(|| std::fs::read_to_string(path).ok()).flatten()
}

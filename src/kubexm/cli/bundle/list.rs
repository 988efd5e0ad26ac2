//! `kubexm bundle list`.

use clap::Args;

use crate::cli::bundle_args::BundleArgs;
use crate::cli::output::outln;
use crate::cli::{Failure, output};
use crate::report::{Output, bytes};
use kubexm_bundling::inspect::{InspectOptions, Item, list};
use kubexm_types::Arch;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm bundle list bundle.tar.zst
  kubexm bundle list bundle.tar.zst --arch arm64 --output json")]
pub struct List {
    #[command(flatten)]
    bundle: BundleArgs,
    /// Only content for this architecture
    #[arg(long)]
    arch: Option<Arch>,
}

/// Prints the content of a bundle, one item in a line.
pub fn run(arguments: &List, output: Output) -> Result<(), Failure> {
    let contents = list(&InspectOptions {
        bundle: arguments.bundle.path()?.to_owned(),
        access: arguments.bundle.access(),
        arch: arguments.arch,
    })?;
    match output {
        Output::Json => output::document("BundleContents", &contents)?,
        Output::Auto | Output::Plain => contents.items.iter().for_each(print),
    }
    Ok(())
}

fn print(item: &Item) {
    let arches: Vec<&str> = item.architectures.iter().map(|arch| arch.name()).collect();
    let arches = arches.join(", ");
    let mut name = item.name.clone();
    if let Some(version) = &item.version {
        name += &format!(" {version}");
    }
    match (&item.release, item.kind) {
        (Some(release), _) => name += &format!(" ({release} {arches})"),
        (None, "image") => name += &format!(" ({arches})"),
        (None, _) if !arches.is_empty() => name += &format!(" {arches}"),
        (None, _) => {}
    }
    outln!(
        "{:8} {:>11} {} {name}",
        item.kind,
        bytes(item.size),
        &item.digest.hex()[..12]
    );
    if let Some(signature) = &item.signature {
        let digest = &signature.digest.hex()[..12];
        outln!("{:8} signed by {} ({digest})", "", signature.by);
    }
    for image in &item.runs {
        let note = if image.in_bundle {
            ""
        } else {
            " (not in the bundle)"
        };
        outln!("{:8} runs {}{note}", "", image.name);
    }
}

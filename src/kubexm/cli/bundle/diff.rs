//! `kubexm bundle diff`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::output::outln;
use crate::cli::{Failure, output};
use crate::report::{Output, bytes};
use kubexm_commands::diff::{Comparison, diff};

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm bundle diff old.tar.zst new.tar.zst
  kubexm bundle diff old.lock.yaml new.lock.yaml --output json")]
pub struct Diff {
    /// A bundle, or the lock of one (.yaml)
    before: PathBuf,
    /// Another bundle or lock
    after: PathBuf,
}

/// Prints the differences between two bundles.
pub fn run(arguments: &Diff, output: Output) -> Result<(), Failure> {
    let comparison = diff(&arguments.before, &arguments.after)?;
    match output {
        Output::Json => output::document("BundleComparison", &comparison)?,
        Output::Auto | Output::Plain => print(&comparison),
    }
    Ok(())
}

fn print(comparison: &Comparison) {
    for difference in &comparison.differences {
        outln!("{difference}");
    }
    match comparison.differences.len() {
        0 => outln!("no difference in content"),
        count => outln!(
            "{count} differences; {} that only the second has",
            bytes(comparison.new_bytes)
        ),
    }
}

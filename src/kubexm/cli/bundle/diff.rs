//! `kubexm bundle diff`.

use kubexm_types::ErrorKind;
use std::path::PathBuf;

use clap::Args;

use crate::cli::output::outln;
use crate::cli::{Failure, output};
use crate::report::{Output, bytes};
use kubexm_bundling::diff::{Comparison, diff};

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm bundle diff old.tar.zst new.tar.zst
  kubexm bundle diff old.lock.yaml new.lock.yaml --output json
  kubexm bundle diff old.lock.yaml new.lock.yaml --exit-code")]
pub struct Diff {
    /// A bundle, or the lock of one (.yaml)
    before: PathBuf,
    /// Another bundle or lock
    after: PathBuf,
    /// End with exit code 1 if there are differences
    #[arg(long)]
    exit_code: bool,
}

/// Prints the differences between two bundles.
pub fn run(arguments: &Diff, output: Output) -> Result<(), Failure> {
    let comparison = diff(&arguments.before, &arguments.after)?;
    match output {
        Output::Json => output::document("BundleComparison", &comparison)?,
        Output::Auto | Output::Plain => print(&comparison),
    }
    if arguments.exit_code && !comparison.differences.is_empty() {
        Err(Failure::found(ErrorKind::Differences))
    } else {
        Ok(())
    }
}

fn print(comparison: &Comparison) {
    if comparison.differences.is_empty() {
        outln!("no difference in content");
        return;
    }
    for difference in &comparison.differences {
        outln!("{difference}");
    }
    outln!("");
    for kind in &comparison.summary {
        outln!("{kind}");
    }
    let new = bytes(comparison.new_bytes);
    outln!("{new} only in the second bundle");
}

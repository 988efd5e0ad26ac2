//! `kubexm bundle lock`.

use std::path::PathBuf;

use clap::Args;

use super::sources::SourceArgs;
use crate::cli::output::outln;
use crate::cli::{Failure, interrupt};
use kubexm_bundling::build::{LockOptions, lock};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm bundle lock -f bundle.yaml -o bundle.lock.yaml")]
pub struct Lock {
    #[command(flatten)]
    sources: SourceArgs,
    /// Path of the lock; versions and digests in an existing lock are kept
    #[arg(short, long, value_name = "LOCK")]
    out: PathBuf,
}

/// Writes the lock.
pub async fn run(arguments: Lock, events: &Events) -> Result<(), Failure> {
    let stop = interrupt::watch(events, interrupt::STOPPING_BUILD);
    let options = LockOptions {
        sources: arguments.sources.options(),
        out: arguments.out,
    };
    let report = lock(&options, events, &stop).await?;
    for difference in &report.differences {
        outln!("{difference}");
    }
    outln!("{}", report.path.display());
    Ok(())
}

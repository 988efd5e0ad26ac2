//! `kubexm man`.

use std::path::PathBuf;

use clap::Args;

use super::output::say;
use super::{Failure, command};

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm man /usr/local/share/man/man1")]
pub struct Man {
    /// The folder to write to; it is created if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes one page for each command.
pub fn run(arguments: &Man) -> Result<(), Failure> {
    let folder = &arguments.folder;
    let failed = |error| Failure::configuration(format!("{}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(command(), folder).map_err(failed)?;
    say!("manual pages are in {}", folder.display());
    Ok(())
}

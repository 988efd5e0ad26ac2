//! `kubexm man`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::output::outln;
use super::{Failure, output};
use crate::report::Output;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm man /usr/local/share/man/man1")]
pub struct Man {
    /// The folder to write to; it is created if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Where the pages are.
#[derive(Serialize)]
pub struct Pages<'a> {
    /// The folder.
    pub folder: &'a Path,
}

/// Writes one page for each command of `program`.
pub fn run(arguments: &Man, program: clap::Command, output: Output) -> Result<(), Failure> {
    let folder = &arguments.folder;
    let failed = |error: std::io::Error| {
        let folder = folder.display();
        Failure::configuration(format!(
            "cannot write the manual pages to {folder}: {error}"
        ))
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(program, folder).map_err(failed)?;
    if output == Output::Json {
        return output::document("ManualPages", &Pages { folder });
    }
    outln!("manual pages are in {}", folder.display());
    Ok(())
}

//! `kubexm bundle sbom`.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::cli::bundle_args::BundleArgs;
use crate::cli::output::outln;
use crate::cli::{Failure, output};
use crate::report::Output;
use kubexm_bundling::sbom::{SbomFormat, sbom, write};
use kubexm_types::untrusted;

/// The number of notes that are printed to standard error.
const MOST_NOTES: usize = 10;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm bundle sbom bundle.tar.zst -o bundle.cdx.json
  kubexm bundle sbom bundle.tar.zst --format table")]
pub struct Sbom {
    #[command(flatten)]
    bundle: BundleArgs,
    /// The format of the document
    #[arg(long, value_enum, default_value_t = Format::CyclonedxJson)]
    format: Format,
    /// The file to write, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// The formats of an SBOM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// SPDX 2.3
    SpdxJson,
    /// CycloneDX 1.6
    CyclonedxJson,
    /// For people
    Table,
}

impl From<Format> for SbomFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::SpdxJson => Self::SpdxJson,
            Format::CyclonedxJson => Self::CyclonedxJson,
            Format::Table => Self::Table,
        }
    }
}

/// An SBOM that was written to a file.
#[derive(Serialize)]
pub struct SbomFile<'a> {
    /// The file.
    pub path: &'a Path,
}

/// Writes the document.
pub fn run(arguments: &Sbom, output: Output) -> Result<(), Failure> {
    let access = arguments.bundle.access();
    let sbom = sbom(arguments.bundle.path()?, &access, arguments.format.into())?;
    warn(&sbom.notes);
    match &arguments.out {
        None => output::text(&sbom.document),
        Some(path) => {
            write(path, &sbom)?;
            if output == Output::Json {
                return output::document("SbomFile", &SbomFile { path });
            }
            outln!("{}", path.display());
        }
    }
    Ok(())
}

/// Prints what kubexm could not find out to standard error, because the document may go to standard
/// output.
pub fn warn(notes: &BTreeSet<String>) {
    let mut out = std::io::stderr().lock();
    for note in notes.iter().take(MOST_NOTES) {
        // Standard error may be closed; the document contains the note, too.
        let _ = writeln!(out, "note: {}", untrusted::message(note));
    }
    if notes.len() > MOST_NOTES {
        let more = notes.len() - MOST_NOTES;
        let _ = writeln!(out, "note: … and {more} more of the kind");
    }
}

//! `kubexm bundle sbom`: what a bundle is made of.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, ValueEnum};

use super::Failure;
use super::build::write_text;
use super::bundle::threads;
use super::out::{say, text};
use super::subject::Opening;
use kubexm_bundle::Bundle;
use kubexm_sbom::{Inventory, Stamp, cyclonedx, spdx, table};

/// Lines of standard error for what could not be found out.
const MOST_WARNINGS: usize = 10;

#[derive(Debug, Args)]
pub struct Sbom {
    /// The bundle
    bundle: PathBuf,
    #[command(flatten)]
    opening: Opening,
    /// The kind of document
    #[arg(long, value_enum, default_value_t = Format::CyclonedxJson)]
    format: Format,
    /// The file that it is written to, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Kinds of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// SPDX 2.3
    SpdxJson,
    /// CycloneDX 1.6
    CyclonedxJson,
    /// For people
    Table,
}

/// `FILE[,FORMAT]`: a document that is written beside a bundle when it is built.
#[derive(Debug, Clone)]
pub struct Beside {
    path: PathBuf,
    format: Format,
}

impl FromStr for Beside {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (path, format) = match text.rsplit_once(',') {
            Some((path, format)) => (path, Format::from_str(format, false)?),
            None if text.ends_with(".spdx.json") => (text, Format::SpdxJson),
            None => (text, Format::CyclonedxJson),
        };
        Ok(Self {
            path: path.into(),
            format,
        })
    }
}

impl Beside {
    /// Whether it could be written: said before everything is downloaded, not after.
    pub fn check(&self) -> Result<(), Failure> {
        let folder = self.path.parent().filter(|p| !p.as_os_str().is_empty());
        let probe = tempfile::tempfile_in(folder.unwrap_or(Path::new(".")));
        probe.map(|_| ()).map_err(|error| {
            let path = self.path.display();
            Failure::configuration(format!("--sbom {path}: cannot be written there: {error}"))
        })
    }

    /// Writes the document of a bundle that was just built.
    pub fn write(&self, bundle: &Path) -> Result<(), Failure> {
        save(&Bundle::open(bundle)?, self.format, Some(&self.path))
    }
}

/// Writes the document.
pub fn run(arguments: &Sbom) -> Result<(), Failure> {
    let bundle = arguments.opening.open_complete(&arguments.bundle)?;
    save(&bundle, arguments.format, arguments.out.as_deref())
}

fn save(bundle: &Bundle, format: Format, out: Option<&Path>) -> Result<(), Failure> {
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
    let stamp = Stamp::of(epoch.as_deref()).map_err(Failure::configuration)?;
    let inventory = Inventory::of(bundle, threads())?;
    warn(&inventory);
    let json = |document| serde_json::to_string_pretty(&document).map_err(Failure::bundle);
    let mut document = match format {
        Format::SpdxJson => json(spdx::document(&inventory, stamp))?,
        Format::CyclonedxJson => json(cyclonedx::document(&inventory, stamp))?,
        Format::Table => table::components(&inventory),
    };
    if !document.ends_with('\n') {
        document.push('\n');
    }
    let Some(path) = out else {
        text(&document);
        return Ok(());
    };
    write_text(path, &document)?;
    say!("{}", path.display());
    Ok(())
}

/// Says what could not be found out, on standard error: the document may go to standard output.
pub fn warn(inventory: &Inventory) {
    let mut out = std::io::stderr().lock();
    let notes = inventory.notes.iter();
    for note in notes.take(MOST_WARNINGS) {
        // Standard error may be gone; the document says it too.
        let _ = writeln!(out, "note: {note}");
    }
    if let Some(more) = inventory.notes.len().checked_sub(MOST_WARNINGS + 1) {
        let _ = writeln!(out, "note: … and {} more of the kind", more + 1);
    }
}

//! `bundle sbom`: a software bill of materials of a bundle.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kubexm_bundle::Bundle;
use kubexm_sbom::{Inventory, Stamp, cyclonedx, spdx, table};
use kubexm_session::{BundleAccess, CommandError, text_file, threads};

/// The format of an SBOM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SbomFormat {
    /// SPDX 2.3.
    SpdxJson,
    /// CycloneDX 1.6.
    CyclonedxJson,
    /// A table for people.
    Table,
}

/// An SBOM that a build writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SbomFile {
    /// The path of the document.
    pub path: PathBuf,
    /// Its format.
    pub format: SbomFormat,
}

/// An SBOM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sbom {
    /// The document; ends with a line break.
    pub document: String,
    /// What kubexm could not find out, one sentence each.
    pub notes: BTreeSet<String>,
}

impl SbomFile {
    /// Checks that the document can be written, before everything is downloaded.
    pub fn check(&self) -> Result<(), CommandError> {
        text_file::check(&self.path)
    }
}

/// Lists what a bundle consists of.
///
/// # Errors
/// The bundle cannot be read.
#[tracing::instrument(skip_all, fields(bundle = %bundle.display()))]
pub fn sbom(
    bundle: &Path,
    access: &BundleAccess,
    format: SbomFormat,
) -> Result<Sbom, CommandError> {
    document(&access.open_complete(bundle)?, format)
}

/// Writes a document completely, or leaves the previous file.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, sbom: &Sbom) -> Result<(), CommandError> {
    text_file::write(path, &sbom.document)
}

/// Writes the SBOM of a bundle that was just built. Returns its notes.
pub fn write_beside(file: &SbomFile, bundle: &Path) -> Result<BTreeSet<String>, CommandError> {
    let sbom = document(&Bundle::open(bundle)?, file.format)?;
    write(&file.path, &sbom)?;
    Ok(sbom.notes)
}

fn document(bundle: &Bundle, format: SbomFormat) -> Result<Sbom, CommandError> {
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
    let stamp = Stamp::parse(epoch.as_deref()).map_err(CommandError::configuration)?;
    let inventory = Inventory::scan(bundle, threads())?;
    let json = |document| serde_json::to_string_pretty(&document).map_err(CommandError::defect);
    let mut document = match format {
        SbomFormat::SpdxJson => json(spdx::document(&inventory, stamp))?,
        SbomFormat::CyclonedxJson => json(cyclonedx::document(&inventory, stamp))?,
        SbomFormat::Table => table::components(&inventory),
    };
    if !document.ends_with('\n') {
        document.push('\n');
    }
    Ok(Sbom {
        document,
        notes: inventory.notes.into_iter().collect(),
    })
}

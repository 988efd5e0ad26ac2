//! `bundle vulnerabilities`: known vulnerabilities of a bundle's content.

use kubexm_types::Message;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use time::OffsetDateTime;

use kubexm_sbom::Inventory;
use kubexm_session::{BundleAccess, CommandError, FileError, threads};

pub use kubexm_sbom::vulnerability::{Report, Severity};

/// What to check, against which database.
#[derive(Debug, Clone)]
pub struct VulnerabilityOptions {
    /// The bundle.
    pub bundle: PathBuf,
    /// How it is opened.
    pub access: BundleAccess,
    /// An export of the OSV database: a zip, a folder of records or a file of them.
    pub database: PathBuf,
}

/// The vulnerabilities of a bundle.
#[derive(Debug, Clone)]
pub struct Vulnerabilities {
    /// What was found.
    pub report: Report,
    /// What kubexm could not find out about the bundle, one sentence each.
    pub notes: BTreeSet<String>,
}

impl Vulnerabilities {
    /// Returns the report as a table for people.
    pub fn table(&self) -> String {
        self.report.table(OffsetDateTime::now_utc())
    }

    /// Fails if a vulnerability has at least this severity.
    ///
    /// # Errors
    /// Names the number of such vulnerabilities.
    pub fn fail_on(&self, bundle: &Path, severity: Severity) -> Result<(), CommandError> {
        match self.report.at_least(severity) {
            0 => Ok(()),
            count => Err(CommandError::Vulnerable {
                bundle: bundle.to_owned(),
                count,
                severity,
            }),
        }
    }
}

/// Looks up everything in a bundle in a database.
///
/// # Errors
/// The bundle or the database cannot be read.
#[tracing::instrument(skip_all, fields(bundle = %options.bundle.display()))]
pub fn vulnerabilities(options: &VulnerabilityOptions) -> Result<Vulnerabilities, CommandError> {
    // A wrong path is reported before the whole bundle is read.
    let database = &options.database;
    std::fs::metadata(database).map_err(|error| {
        let error = FileError::new("read the vulnerability database", database, error);
        error
            .hint("give --database an export of OSV: a zip, a folder of records, or a file of them")
    })?;
    let bundle = options.access.open_complete(&options.bundle)?;
    let inventory = Inventory::scan(&bundle, threads())?;
    let report = Report::create(&inventory, database)
        .map_err(|error| CommandError::configuration(Message::from(&error)))?;
    Ok(Vulnerabilities {
        report,
        notes: inventory.notes.into_iter().collect(),
    })
}

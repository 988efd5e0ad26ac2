//! `kubexm bundle vulnerabilities`: what of a bundle is known to be vulnerable.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use time::OffsetDateTime;

use super::Failure;
use super::bundle::threads;
use super::out::text;
use super::sbom::warn;
use super::subject::Opening;
use kubexm_sbom::Inventory;
use kubexm_sbom::vulnerability::{Report, Severity};

#[derive(Debug, Args)]
pub struct Vulnerabilities {
    /// The bundle
    bundle: PathBuf,
    #[command(flatten)]
    opening: Opening,
    /// An export of OSV: a zip, a folder of records or a file of them; nothing is ever fetched
    #[arg(long, value_name = "OSV")]
    database: PathBuf,
    /// How they are shown
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Fail where there is one of this severity or above; `any` counts those without one, too
    #[arg(long, value_enum, value_name = "SEVERITY")]
    fail_on: Option<Limit>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Table,
    Json,
}

/// How bad it may not be.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Limit {
    Any,
    Low,
    Medium,
    High,
    Critical,
}

impl Limit {
    fn severity(self) -> Severity {
        match self {
            Self::Any => Severity::Unknown,
            Self::Low => Severity::Low,
            Self::Medium => Severity::Medium,
            Self::High => Severity::High,
            Self::Critical => Severity::Critical,
        }
    }
}

/// Shows them.
pub fn run(arguments: &Vulnerabilities) -> Result<(), Failure> {
    // A database that is none must not be told after the whole bundle was read.
    let path = &arguments.database;
    std::fs::metadata(path)
        .map_err(|error| Failure::configuration(format!("{}: {error}", path.display())))?;
    let inventory = Inventory::of(
        &arguments.opening.open_complete(&arguments.bundle)?,
        threads(),
    )?;
    let report = Report::of(&inventory, path).map_err(Failure::configuration)?;
    match arguments.format {
        Format::Table => text(&report.table(OffsetDateTime::now_utc())),
        Format::Json => {
            warn(&inventory);
            let json = serde_json::to_string_pretty(&report).map_err(Failure::bundle)?;
            text(&(json + "\n"));
        }
    }
    let Some(limit) = arguments.fail_on else {
        return Ok(());
    };
    match report.at_least(limit.severity()) {
        0 => Ok(()),
        count => {
            let words = match limit {
                Limit::Any => String::new(),
                limit => format!(" of severity {} or above", limit.severity().name()),
            };
            Err(Failure::bundle(format!(
                "{}: {count} known vulnerabilities{words}",
                arguments.bundle.display()
            )))
        }
    }
}

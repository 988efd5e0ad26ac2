//! `kubexm bundle vulnerabilities`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::sbom::warn;
use crate::cli::bundle_args::BundleArgs;
use crate::cli::{Failure, output};
use crate::report::Output;
use kubexm_bundling::vulnerabilities::{Severity, VulnerabilityOptions, vulnerabilities};

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm bundle vulnerabilities bundle.tar.zst --database osv.zip
  kubexm bundle vulnerabilities b.tar.zst --database osv.zip --fail-on high")]
pub struct Vulnerabilities {
    #[command(flatten)]
    bundle: BundleArgs,
    /// An export of OSV: a zip, a folder of records or a file of them; nothing is downloaded
    #[arg(long, value_name = "OSV")]
    database: PathBuf,
    /// The format of the report; `--output json` is `--format json`
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Fail if a vulnerability has at least this severity; `any` includes those without one
    #[arg(long, value_enum, value_name = "SEVERITY")]
    fail_on: Option<Limit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
}

/// The least severity that makes the command fail.
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

/// Prints the known vulnerabilities of a bundle.
pub fn run(arguments: &Vulnerabilities, output: Output) -> Result<(), Failure> {
    let bundle = arguments.bundle.path()?;
    let found = vulnerabilities(&VulnerabilityOptions {
        bundle: bundle.to_owned(),
        access: arguments.bundle.access(),
        database: arguments.database.clone(),
    })?;
    if !(arguments.format == Format::Json || output == Output::Json) {
        output::text(&found.table())
    } else {
        warn(&found.notes);
        output::document("VulnerabilityReport", &found.report)?;
    }
    let Some(limit) = arguments.fail_on else {
        return Ok(());
    };
    let checked = found.fail_on(bundle, limit.severity());
    checked.map_err(|error| match output {
        Output::Json => Failure::from(error).reported(),
        Output::Auto | Output::Plain => error.into(),
    })
}

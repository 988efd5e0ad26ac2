//! `kubexm version` and `kubexm --version`.

use std::sync::LazyLock;

use clap::Args;
use serde::Serialize;

use super::Failure;
use super::output::{self, outln};
use crate::report::Output;

/// The commit and its date, such as `1a2b3c4` and `2026-11-22`. The release script sets the variables;
/// a build script that asks git would fail in source archives.
const COMMIT: Option<&str> = option_env!("KUBEXM_COMMIT");
const DATE: Option<&str> = option_env!("KUBEXM_DATE");

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm version
  kubexm version --output json")]
pub struct Version {}

/// What identifies this program.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    version: &'static str,
    commit: Option<&'static str>,
    date: Option<&'static str>,
}

#[cfg(test)]
impl Facts {
    /// Returns invented facts for the documentation.
    pub fn example() -> Self {
        Self {
            version: "0.1.0",
            commit: Some("1a2b3c4"),
            date: Some("2026-11-22"),
        }
    }
}

/// Returns the version with the commit and the date.
pub fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let version = env!("CARGO_PKG_VERSION");
        match (COMMIT, DATE) {
            (Some(commit), Some(date)) => format!("{version} (commit {commit}, {date})"),
            (Some(commit), None) => format!("{version} (commit {commit})"),
            (None, _) => format!("{version} (unknown commit)"),
        }
    });
    &TEXT
}

/// Prints the version.
pub fn run(_: &Version, output: Output) -> Result<(), Failure> {
    if output == Output::Json {
        return output::document(
            "Version",
            &Facts {
                version: env!("CARGO_PKG_VERSION"),
                commit: COMMIT,
                date: DATE,
            },
        );
    }
    outln!("kubexm {}", text());
    Ok(())
}

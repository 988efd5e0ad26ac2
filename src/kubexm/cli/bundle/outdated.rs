//! `kubexm bundle outdated`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::downloads::DownloadArgs;
use crate::cli::output::outln;
use crate::cli::{Failure, output};
use crate::report::Output;
use kubexm_bundling::outdated::{Outdated as Found, OutdatedComponent, outdated};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm bundle outdated bundle.tar.zst
  kubexm bundle outdated bundle.lock.yaml --output json")]
pub struct Outdated {
    /// A bundle, or the lock of one (.yaml)
    bundle: PathBuf,
    #[command(flatten)]
    downloads: DownloadArgs,
}

/// Prints newer releases. Questions that no server answered make the command fail after that.
pub async fn run(arguments: &Outdated, output: Output, events: &Events) -> Result<(), Failure> {
    let silent = Events::silent();
    let events = match output {
        Output::Json => &silent,
        Output::Auto | Output::Plain => events,
    };
    let mut found = outdated(&arguments.bundle, &arguments.downloads.options(), events).await?;
    match output {
        Output::Json => output::document("OutdatedReport", &found)?,
        Output::Auto | Output::Plain => print(&found),
    }
    found.check().map_err(|error| match output {
        Output::Json => Failure::from(error).reported(),
        Output::Auto | Output::Plain => error.into(),
    })
}

fn print(found: &Found) {
    for component in &found.components {
        outln!(
            "{} {}: {}",
            component.name,
            component.version,
            newer(component)
        );
    }
    for image in &found.images {
        outln!(
            "{}: its tag names another image now ({})",
            image.name,
            &image.now.hex()[..12]
        );
    }
    if found.is_empty() && found.errors.is_empty() {
        outln!("nothing has a newer release");
    }
}

fn newer(component: &OutdatedComponent) -> String {
    match (&component.newest_patch, &component.newest) {
        (Some(patch), Some(all)) if patch != all => format!("{patch}, and {all}"),
        (_, Some(newest)) | (Some(newest), None) => newest.clone(),
        (None, None) => String::new(),
    }
}

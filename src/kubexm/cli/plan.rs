//! `kubexm plan`: what a first install would do.

use std::path::PathBuf;

use clap::Args;

use super::out::say;
use super::subject::Subject;
use super::{Failure, build, out};
use kubexm_commands::plan;

#[derive(Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    subject: Subject,
    /// Write the plan as JSON, without secrets, instead of printing it
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Prints the plan, or writes it as JSON.
pub fn run(arguments: &Plan) -> Result<(), Failure> {
    let planned = plan::plan(&arguments.subject.source())?;
    let Some(path) = &arguments.out else {
        out::text(&planned.text()?);
        return Ok(());
    };
    let document = planned.document()?;
    let text = document.to_json().map_err(Failure::configuration)?;
    build::write_text(path, &text)?;
    say!(
        "{}: {} tasks on {} hosts",
        path.display(),
        document.tasks.len(),
        document.hosts.len()
    );
    Ok(())
}

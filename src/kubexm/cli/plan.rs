//! `kubexm plan`: what a first install would do.

use clap::Args;

use super::subject::Subject;
use super::{Failure, out};
use kubexm_commands::plan;

#[derive(Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    subject: Subject,
}

/// Prints the plan.
pub fn run(arguments: &Plan) -> Result<(), Failure> {
    let planned = plan::plan(&arguments.subject.source())?;
    out::text(&planned.text()?);
    Ok(())
}

//! `kubexm render`: the files that an install would put on the hosts.

use std::path::PathBuf;

use clap::Args;

use super::Failure;
use super::out::say;
use super::subject::Subject;

#[derive(Debug, Args)]
pub struct Render {
    #[command(flatten)]
    subject: Subject,
    /// Folder for <host>/<absolute path>
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
}

/// Writes the files.
pub fn run(arguments: &Render) -> Result<(), Failure> {
    let rendered = kubexm_commands::render::render(&arguments.subject.source(), &arguments.out)?;
    say!(
        "{} files in {}",
        rendered.files.len(),
        arguments.out.display()
    );
    Ok(())
}

//! `kubexm completions`.

use clap::Args;
use clap_complete::Shell;

use super::{Failure, output};

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm completions bash > /etc/bash_completion.d/kubexm
  kubexm completions zsh > ~/.zfunc/_kubexm")]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script for the commands of `program`.
pub fn run(arguments: &Completions, mut program: clap::Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, "kubexm", &mut script);
    output::text(&String::from_utf8(script).map_err(Failure::defect)?);
    Ok(())
}

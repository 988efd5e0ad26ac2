//! The `kubexm` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubexm::cli::main()
}

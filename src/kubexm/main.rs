//! The `kubexm` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    // A process that became a part of a sandbox is not a command.
    kubexm_sandbox::enter().unwrap_or_else(kubexm::cli::main)
}

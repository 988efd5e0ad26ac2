//! The command line: one file a command; parse, call, print, exit code.

mod bundle;
mod exit;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::report::Output;

pub use exit::Failure;

/// Kubernetes clusters for places without internet.
#[derive(Debug, Parser)]
#[command(name = "kubexm", version, after_help = exit::HELP, max_term_width = 100)]
struct Arguments {
    /// How to report what happens.
    #[arg(long, global = true, value_enum, default_value = "auto")]
    output: Output,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make and look into bundles
    #[command(subcommand)]
    Bundle(bundle::Command),
}

/// Runs the program.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // The only provider: everything that speaks TLS here uses ring.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let result = match arguments.command {
        Command::Bundle(command) => runtime.block_on(bundle::run(command, arguments.output)),
    };
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            failure.code()
        }
    }
}

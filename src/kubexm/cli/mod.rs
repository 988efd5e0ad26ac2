//! The command line: one file a command; parse, call, print, exit code.

mod add;
mod base;
mod build;
mod bundle;
mod cache;
mod config;
mod connection;
mod copies;
mod downloads;
mod exit;
mod export;
mod extract;
mod install;
mod interrupt;
mod out;
mod outdated;
mod plan;
mod pull;
mod push;
#[cfg(test)]
mod reference;
mod registry;
mod remove;
mod render;
mod repack;
mod reset;
mod sbom;
mod subject;
#[cfg(test)]
mod tests;
mod volume_size;
mod vulnerabilities;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::report::{self, Output};

pub use exit::Failure;

/// Kubernetes clusters for places without internet.
#[derive(Debug, Parser)]
#[command(name = "kubexm", version, after_help = exit::help(), max_term_width = 80)]
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
    /// Bring up the cluster on its hosts, or go on with an install that was stopped
    Install(install::Install),
    /// Print what a first install would do, task by task; needs no host
    Plan(plan::Plan),
    /// Write every file that would be put on every host into a folder; needs no host
    Render(render::Render),
    /// Take back everything that kubexm did on the cluster's hosts
    Reset(reset::Reset),
    /// Look after the registry that a cluster file names
    #[command(subcommand)]
    Registry(registry::Command),
    /// Start, check and describe cluster files
    #[command(subcommand)]
    Config(config::Command),
    /// Write down what a site has, to be carried out: a bundle can be built to carry only the rest
    Inventory(base::Take),
    /// Look after the downloads that are kept between builds
    #[command(subcommand)]
    Cache(cache::Command),
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
    let (output, events) = (arguments.output, report::events(arguments.output));
    // These tell of themselves by events; the others write what they were asked for.
    let tells = match &arguments.command {
        Command::Install(_) | Command::Reset(_) | Command::Registry(_) => true,
        Command::Bundle(command) => command.tells(),
        _ => false,
    };
    if tells && output == Output::Json {
        out::as_notes(&events);
    }
    let result = match arguments.command {
        Command::Bundle(command) => runtime.block_on(bundle::run(command, &events)),
        Command::Install(install) => runtime.block_on(install::run(&install, output, &events)),
        Command::Plan(plan) => plan::run(&plan),
        Command::Render(render) => render::run(&render),
        Command::Reset(reset) => runtime.block_on(reset::run(&reset, output, &events)),
        Command::Registry(command) => runtime.block_on(registry::run(command, &events)),
        Command::Config(command) => config::run(command),
        Command::Inventory(arguments) => base::take(&arguments),
        Command::Cache(command) => cache::run(command),
    };
    runtime.shutdown_background();
    let code = result.as_ref().err().map_or(0, Failure::code);
    let message = result.err().map(|failure| failure.to_string());
    let as_event = tells && output == Output::Json;
    if tells {
        events.end(code, message.clone());
    }
    if let Some(message) = message.filter(|_| !as_event) {
        // A terminal that went away must not turn a failure into a panic.
        let _ = writeln!(std::io::stderr(), "error: {message}");
    }
    ExitCode::from(code)
}

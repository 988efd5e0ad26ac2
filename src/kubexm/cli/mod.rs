//! The command line: one file for each command, which parses arguments, calls the crate of its use case and prints.

mod app;
mod backup;
mod bundle;
mod bundle_args;
mod cache;
mod certs;
mod columns;
mod completions;
mod config;
mod confirmation;
mod conformance;
mod connection;
mod doctor;
mod downloads;
mod duration;
mod exec;
mod exit;
mod explain;
mod help;
mod install;
mod interrupt;
mod inventory;
mod kubeconfig;
mod logging;
mod logs;
mod man;
mod node;
mod offers;
mod option_of_service;
mod output;
mod password;
mod plan;
#[cfg(test)]
mod reference;
mod registry;
mod render;
mod reset;
mod selection;
mod status;
mod support_bundle;
mod target;
#[cfg(test)]
mod tests;
mod timer;
mod trust;
mod upgrade;
mod version;

use std::io::Write;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;

use clap::{FromArgMatches, Parser, Subcommand};
use futures_util::FutureExt;

use crate::report::{self, Output};
use kubexm_types::event::Events;

pub use exit::Failure;

/// Kubernetes clusters for places without internet
#[derive(Debug, Parser)]
#[command(
    name = "kubexm",
    version = version::text(),
    after_help = exit::help(),
    max_term_width = 80
)]
struct Arguments {
    /// Format of progress and results
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "auto",
        help_heading = help::GLOBAL
    )]
    output: Output,
    #[command(flatten)]
    logging: logging::LoggingArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create, inspect, move and sign bundles
    #[command(subcommand)]
    Bundle(bundle::Command),
    /// Install a cluster, or continue an install that was interrupted
    Install(install::Install),
    /// Print what an install would do. Without --diff, it asks no host
    Plan(plan::Plan),
    /// Write the files that an install would put on hosts. It asks no host
    Render(render::Render),
    /// Revert everything that kubexm changed on the hosts of a cluster
    Reset(reset::Reset),
    /// Print the state of hosts, programs, nodes, etcd, disks and certificates
    ///
    /// Reads the state of every host and, if an API server is ready, the state of the nodes. Without --fix, it changes
    /// nothing and needs no bundle. It works while hosts or API servers do not answer, and after certificates have expired.
    ///
    /// The table has one line for each host. FREE is the file system of the cluster with the least free space, EXPIRES the time
    /// until the first certificate expires, and STATE names units and programs that are not healthy. Below the table are
    /// all problems, each with a hint.
    ///
    /// The exit code is 9 if something needs attention. It is 4 if the only problem is a host that cannot be reached.
    Status(status::Status),
    /// Find what is wrong with a cluster, why, and what to do
    ///
    /// Reads clocks, disks, settings of the kernel, certificates, configurations and logs of every host by SSH, tries the
    /// connections between the hosts and, if an API server is ready, asks for nodes, pods and extensions. It changes nothing,
    /// needs no bundle, and works while hosts or API servers do not answer, and after certificates have expired.
    ///
    /// The table has one line for each area, in the order in which they depend on each other. Below it are the causes, each
    /// with its evidence, how sure kubexm is, and commands that correct it. What follows from a cause is at the end.
    ///
    /// The exit code is 9 if something is wrong. It is 4 if the only problem is a host that cannot be reached.
    Doctor(doctor::Doctor),
    /// Write an archive of facts, logs and configurations, without secrets
    ///
    /// It contains what `status` and `doctor` find. From each host that answers, it has facts, configurations, static pods,
    /// receipts, and the newest log lines of the cluster's units and containers. From an API server that is ready, it has lists
    /// and states of objects. Private keys, kubeconfigs, encryption keys and the data of Secrets are never read. kubexm removes
    /// tokens, logins and passwords from every line before it writes the file. Only you can read the file.
    SupportBundle(support_bundle::SupportBundle),
    /// List and renew the certificates of a cluster
    #[command(subcommand)]
    Certs(certs::Command),
    Upgrade(upgrade::Upgrade),
    /// Add hosts to a cluster, remove them and replace them
    #[command(subcommand)]
    Node(node::Command),
    /// Save a cluster in an encrypted file, and bring it back
    #[command(subcommand)]
    Backup(backup::Command),
    /// Run the conformance tests of Kubernetes against a cluster
    Conformance(conformance::Conformance),
    /// Run a command on the hosts of a cluster
    Exec(exec::Exec),
    /// Print what a program of the cluster logged on all hosts, in the order of time
    Logs(logs::Logs),
    /// Write a kubeconfig for a user, with a certificate that expires
    Kubeconfig(kubeconfig::Kubeconfig),
    /// Install, change and remove the applications of a running cluster
    #[command(subcommand)]
    App(app::Command),
    /// List, add, remove and repair images in the registries of a cluster
    #[command(subcommand)]
    Registry(registry::Command),
    /// Create, check and describe the files that you write
    #[command(subcommand)]
    Config(config::Command),
    /// List the blobs that a site has, for `bundle build --base`
    Inventory(inventory::Inventory),
    /// List, check and remove downloads that are kept between builds
    #[command(subcommand)]
    Cache(cache::Command),
    /// Print a completion script for a shell
    Completions(completions::Completions),
    /// Write the manual pages
    Man(man::Man),
    /// Print the version, the commit and the date of this program
    Version(version::Version),
}

impl Command {
    /// Returns whether the command reports its progress by events. Other commands print a result.
    fn emits_events(&self) -> bool {
        match self {
            Self::Install(_) | Self::Upgrade(_) | Self::Node(_) | Self::Reset(_) => true,
            Self::App(command) => command.emits_events(),
            Self::Registry(command) => command.emits_events(),
            Self::Bundle(command) => command.emits_events(),
            Self::Certs(command) => command.emits_events(),
            Self::Backup(command) => command.emits_events(),
            Self::Exec(arguments) => arguments.emits_events(),
            Self::Kubeconfig(arguments) => arguments.emits_events(),
            _ => false,
        }
    }
}

/// Returns the definition of all commands.
fn command() -> clap::Command {
    help::grouped::<Arguments>()
}

/// Runs the program.
pub fn main() -> ExitCode {
    let matches = command().get_matches();
    let arguments = match Arguments::from_arg_matches(&matches) {
        Ok(arguments) => arguments,
        Err(error) => error.exit(),
    };
    // rustls needs exactly one provider of cryptography; everything in kubexm uses ring.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A path need not be UTF-8.
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    for (old, new) in help::old_names(words) {
        let notice = format!("notice: `{old}` is now `{new}`; the old name remains for now");
        let _ = writeln!(std::io::stderr(), "{notice}");
    }
    let result = run(arguments);
    ExitCode::from(result)
}

fn run(arguments: Arguments) -> u8 {
    let (output, command) = (arguments.output, arguments.command);
    let emits_events = command.emits_events();
    if let Err(failure) = arguments.logging.start() {
        return end(&Events::silent(), output, false, Err(failure));
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            let failure = Failure::machine(format!("cannot start: {error}"));
            return end(&Events::silent(), output, false, Err(failure));
        }
    };
    // A command that prints one JSON document prints its warnings on standard error.
    let progress = match (output, emits_events) {
        (Output::Json, false) => Output::Plain,
        _ => output,
    };
    let events = logging::with_log(report::events(progress, arguments.logging.to_terminal()));
    if emits_events && output == Output::Json {
        output::redirect_to_events(&events);
    }
    let result = runtime.block_on(caught(dispatch(command, output, &events)));
    runtime.shutdown_background();
    end(&events, output, emits_events, result)
}

/// Runs a command. A panic is a defect of kubexm, and the standard library has reported where it happened.
async fn caught(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let ended = Box::pin(AssertUnwindSafe(work).catch_unwind()).await;
    ended.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Failure::defect(text.unwrap_or("it panicked")))
    })
}

async fn dispatch(command: Command, output: Output, events: &Events) -> Result<(), Failure> {
    match command {
        Command::Bundle(command) => bundle::run(command, output, events).await,
        Command::Install(arguments) => install::run(&arguments, output, events).await,
        Command::Plan(arguments) => plan::run(&arguments, output, events).await,
        Command::Render(arguments) => render::run(&arguments, output, events),
        Command::Reset(arguments) => reset::run(&arguments, output, events).await,
        Command::Status(arguments) => status::run(&arguments, output, events).await,
        Command::Doctor(arguments) => doctor::run(&arguments, output, events).await,
        Command::SupportBundle(arguments) => support_bundle::run(&arguments, output, events).await,
        Command::Certs(command) => certs::run(command, output, events).await,
        Command::Backup(command) => backup::run(command, output, events).await,
        Command::Upgrade(arguments) => upgrade::run(&arguments, output, events).await,
        Command::Node(command) => Box::pin(node::run(command, output, events)).await,
        Command::Conformance(arguments) => conformance::run(&arguments, output, events).await,
        Command::Exec(arguments) => exec::run(&arguments, output, events).await,
        Command::Logs(arguments) => logs::run(&arguments, output, events).await,
        Command::Kubeconfig(arguments) => kubeconfig::run(&arguments, output, events).await,
        Command::App(command) => app::run(command, output, events).await,
        Command::Registry(command) => registry::run(command, output, events).await,
        Command::Config(command) => config::run(command, output, events).await,
        Command::Inventory(arguments) => inventory::run(&arguments, output),
        Command::Cache(command) => cache::run(command, output),
        Command::Completions(arguments) => completions::run(&arguments, self::command()),
        Command::Man(arguments) => man::run(&arguments, self::command(), output),
        Command::Version(arguments) => version::run(&arguments, output),
    }
}

/// Reports how a command ended, and returns its exit code.
fn end(events: &Events, output: Output, emits_events: bool, result: Result<(), Failure>) -> u8 {
    let kind = result.as_ref().err().map(Failure::kind);
    let code = kind.map_or(0, |kind| exit::code(kind).0);
    let is_reported = result.as_ref().is_err_and(Failure::is_reported);
    let message = result.err().and_then(|failure| failure.message());
    if emits_events {
        events.end(code, kind, message.clone());
    }
    let Some(message) = message else {
        return code;
    };
    match (output, emits_events) {
        // The last event or the result contains the message.
        (Output::Json, true) => {}
        (Output::Json, false) if is_reported => {}
        (Output::Json, false) => {
            let body = output::ErrorDocument {
                exit_code: code,
                error_kind: kind,
                message: &message.text,
                hint: message.hint.as_deref(),
                problems: message.listed(),
            };
            let _ = output::document("Error", &body);
        }
        _ => {
            // A terminal that was closed must not turn a failure into a panic.
            let _ = writeln!(std::io::stderr(), "error: {message}");
        }
    }
    code
}

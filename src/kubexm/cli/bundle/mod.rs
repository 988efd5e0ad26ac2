//! `kubexm bundle`: create, inspect, move and sign bundles. One file for each command.

mod add;
mod build;
mod diff;
mod export;
mod extract;
mod find_images;
mod inspect;
mod join;
mod keygen;
mod list;
mod lock;
mod merge;
mod outdated;
mod pull;
mod push;
mod remove;
pub(super) mod sbom;
mod sign;
mod signature;
mod sources;
mod split;
mod verify;
mod vulnerabilities;

use clap::Subcommand;

use super::Failure;
use super::help::Groups;
use crate::report::Output;
use kubexm_types::event::Events;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Download, verify and pack everything that a manifest names
    Build(build::Build),
    /// Download and verify the same, and write only the lock
    Lock(lock::Lock),
    /// Print the images that charts and manifests need, and why
    FindImages(find_images::FindImages),
    /// Add your own images, files, charts and manifests
    Add(add::Add),
    /// Remove content that nothing else in the bundle needs
    Remove(remove::Remove),
    /// Merge an incremental bundle with its base bundles
    #[command(alias = "apply")]
    Merge(merge::Merge),
    /// Show the metadata and check that the index matches the file
    Inspect(inspect::Inspect),
    /// List every file, image and package
    List(list::List),
    /// Compare every byte with its digest, and verify signatures
    Verify(verify::Verify),
    /// Show the differences between two bundles or locks
    Diff(diff::Diff),
    /// Show which content has newer releases
    Outdated(outdated::Outdated),
    /// Write an SBOM, down to packages and modules in images
    Sbom(sbom::Sbom),
    /// Look up the content in a vulnerability database
    Vulnerabilities(vulnerabilities::Vulnerabilities),
    /// Write single programs, files or packages
    Extract(extract::Extract),
    /// Write images as an OCI image layout or for `docker load`
    Export(export::Export),
    /// Split a bundle into volumes, or change their size
    Split(split::Split),
    /// Write one file from the volumes of a bundle
    Join(join::Join),
    /// Copy a bundle to a registry
    Push(push::Push),
    /// Copy a bundle from a registry
    Pull(pull::Pull),
    /// Create a pair of minisign keys
    Keygen(keygen::Keygen),
    /// Sign a bundle with a minisign key
    Sign(sign::Sign),
}

/// The groups of commands in the help, in order.
pub const GROUPS: &Groups = &[
    (
        "Create",
        &["build", "lock", "find-images", "add", "remove", "merge"],
    ),
    (
        "Inspect",
        &[
            "inspect",
            "list",
            "verify",
            "diff",
            "outdated",
            "sbom",
            "vulnerabilities",
            "extract",
            "export",
        ],
    ),
    ("Move", &["split", "join", "push", "pull"]),
    ("Sign", &["keygen", "sign"]),
];

impl Command {
    /// Returns whether the command reports its progress by events.
    pub fn emits_events(&self) -> bool {
        use Command as C;
        matches!(
            self,
            C::Build(_)
                | C::Lock(_)
                | C::Add(_)
                | C::Remove(_)
                | C::Export(_)
                | C::Push(_)
                | C::Pull(_)
                | C::Split(_)
                | C::Join(_)
                | C::Sign(_)
                | C::Merge(_)
        )
    }
}

/// Runs one of the commands.
pub async fn run(command: Command, output: Output, events: &Events) -> Result<(), Failure> {
    match command {
        Command::Build(arguments) => build::run(arguments, events).await,
        Command::Lock(arguments) => lock::run(arguments, events).await,
        Command::FindImages(arguments) => find_images::run(&arguments, output, events).await,
        Command::Add(arguments) => add::run(arguments, events).await,
        Command::Remove(arguments) => remove::run(arguments, events).await,
        Command::Merge(arguments) => merge::run(arguments, events).await,
        Command::Inspect(arguments) => inspect::run(&arguments, output),
        Command::List(arguments) => list::run(&arguments, output),
        Command::Verify(arguments) => verify::run(&arguments, output, events).await,
        Command::Diff(arguments) => diff::run(&arguments, output),
        Command::Outdated(arguments) => outdated::run(&arguments, output, events).await,
        Command::Sbom(arguments) => sbom::run(&arguments, output),
        Command::Vulnerabilities(arguments) => vulnerabilities::run(&arguments, output),
        Command::Extract(arguments) => extract::run(&arguments, output),
        Command::Export(arguments) => export::run(arguments, events).await,
        Command::Split(arguments) => split::run(arguments, events).await,
        Command::Join(arguments) => join::run(arguments, events).await,
        Command::Push(arguments) => push::run(arguments, events).await,
        Command::Pull(arguments) => pull::run(arguments, events).await,
        Command::Keygen(arguments) => keygen::run(&arguments, output),
        Command::Sign(arguments) => sign::run(arguments, events).await,
    }
}

//! `kubexm cache`: the downloads that are kept between builds.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

use super::output::outln;
use super::{Failure, output};
use crate::report::{Output, bytes};
use kubexm_bundling::cache::{self, CacheContents, CollectOptions, Collected};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List blobs with their sizes, and downloads that are not complete
    #[command(after_long_help = "Examples:
  kubexm cache ls
  kubexm cache ls --output json")]
    Ls(Place),
    /// Compare every blob with its digest, and remove damaged ones
    #[command(after_long_help = "Examples:
  kubexm cache verify")]
    Verify(Place),
    /// Remove everything that none of the given locks needs
    Gc(Gc),
}

#[derive(Debug, Args)]
pub struct Place {
    /// The cache folder
    #[arg(long, value_name = "DIR", env = "KUBEXM_CACHE")]
    cache: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("what").required(true),
    after_long_help = "Examples:
  kubexm cache gc --keep bundle.lock.yaml --dry-run
  kubexm cache gc --all"
)]
pub struct Gc {
    #[command(flatten)]
    place: Place,
    /// Locks (<bundle>.lock.yaml) whose downloads are kept; repeatable
    #[arg(long = "keep", value_name = "LOCK", group = "what")]
    locks: Vec<PathBuf>,
    /// Remove everything
    #[arg(long, group = "what")]
    all: bool,
    /// Only report what would be removed
    #[arg(long)]
    dry_run: bool,
}

/// Runs one of the commands.
pub fn run(command: Command, output: Output) -> Result<(), Failure> {
    match command {
        Command::Ls(place) => list(&place, output),
        Command::Verify(place) => verify(&place, output),
        Command::Gc(arguments) => collect(arguments, output),
    }
}

fn list(place: &Place, output: Output) -> Result<(), Failure> {
    let contents = cache::list(place.cache.as_deref())?;
    match output {
        Output::Json => output::document("CacheContents", &contents)?,
        Output::Auto | Output::Plain => print(&contents),
    }
    Ok(())
}

fn print(contents: &CacheContents) {
    for blob in &contents.blobs {
        outln!("{:>11} {}", bytes(blob.size), blob.digest);
    }
    for partial in &contents.partial {
        let total = partial.total.map(|total| format!(" of {}", bytes(total)));
        outln!(
            "{:>11} {} (not complete{})",
            bytes(partial.bytes),
            partial.path.display(),
            total.unwrap_or_default()
        );
    }
    outln!(
        "{} blobs, {}; {} not complete",
        contents.blobs.len(),
        bytes(contents.bytes()),
        contents.partial.len()
    );
}

fn verify(place: &Place, output: Output) -> Result<(), Failure> {
    let verification = cache::verify(place.cache.as_deref())?;
    if output == Output::Json {
        output::document("CacheVerification", &verification)?;
        let checked = verification.check();
        return checked.map_err(|error| Failure::from(error).reported());
    }
    verification.check()?;
    outln!("{} blobs match their digests", verification.blobs);
    Ok(())
}

fn collect(arguments: Gc, output: Output) -> Result<(), Failure> {
    let collected = cache::collect(&CollectOptions {
        cache: arguments.place.cache,
        keep: arguments.locks,
        dry_run: arguments.dry_run,
    })?;
    match output {
        Output::Json => output::document("CacheCollection", &collected)?,
        Output::Auto | Output::Plain => print_collected(&collected),
    }
    Ok(())
}

fn print_collected(collected: &Collected) {
    let verb = if collected.dry_run {
        "would be removed"
    } else {
        "removed"
    };
    outln!(
        "{} blobs and {} incomplete downloads {verb}, {}",
        collected.blobs,
        collected.partial,
        bytes(collected.bytes)
    );
}

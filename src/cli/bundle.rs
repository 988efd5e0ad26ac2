//! `kubexm bundle`: make and look into bundles.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::Failure;
use super::build::{self, Build, Lock, read_lock};
use super::extract::{self, Extract};
use super::out::say;
use crate::bundle::difference::differences;
use crate::bundle::{self, Bundle};
use crate::event::Events;
use crate::report;
use crate::spec;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Download, verify and pack everything that a manifest names
    Build(Build),
    /// Download and verify the same, and write only the lock
    Lock(Lock),
    /// Say what a bundle is and whether its index fits
    Inspect(File),
    /// Read every byte of a bundle and compare all digests
    Verify(Verify),
    /// List every file, image and package of a bundle
    List(File),
    /// Say what differs between two bundles or locks
    Diff(Diff),
    /// Take single programs, files or packages out of a bundle
    Extract(Extract),
}

#[derive(Debug, Args)]
pub struct File {
    /// The bundle
    bundle: PathBuf,
}

#[derive(Debug, Args)]
pub struct Verify {
    /// The bundle
    bundle: PathBuf,
    /// Look at the index and the table of places only, which takes no time
    #[arg(long)]
    quick: bool,
}

#[derive(Debug, Args)]
pub struct Diff {
    /// A bundle, or the lock of one (.yaml)
    before: PathBuf,
    /// Another
    after: PathBuf,
}

/// Runs one of the commands.
pub async fn run(command: Command, events: &Events) -> Result<(), Failure> {
    match command {
        Command::Build(arguments) => build::build(arguments, events).await,
        Command::Lock(arguments) => build::lock(arguments, events).await,
        Command::Inspect(File { bundle }) => inspect(&bundle),
        Command::List(File { bundle }) => list(&bundle),
        Command::Diff(arguments) => diff(&arguments),
        Command::Extract(arguments) => extract::run(&arguments),
        Command::Verify(arguments) => verify(&arguments, events),
    }
}

fn verify(arguments: &Verify, events: &Events) -> Result<(), Failure> {
    let path = arguments.bundle.display();
    let bundle = Bundle::open(&arguments.bundle)?;
    if arguments.quick {
        say!("{path}: the index fits the file; no content was read");
        return Ok(());
    }
    bundle.verify(threads(), events)?;
    bundle.verify_made(events)?;
    say!("{path}: every blob is what its digest says");
    Ok(())
}

/// One thread a core.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn diff(arguments: &Diff) -> Result<(), Failure> {
    let (before, after) = (any_lock(&arguments.before)?, any_lock(&arguments.after)?);
    let differences = differences(&before, &after);
    for difference in &differences {
        say!("{difference}");
    }
    if differences.is_empty() {
        say!("no difference in content");
        return Ok(());
    }
    let had = before.blobs();
    let new = after.blobs().into_iter();
    let bytes: u64 = new
        .filter(|(digest, _)| !had.contains_key(digest))
        .map(|(_, (size, _))| size)
        .sum();
    say!(
        "{} differences; {} that only the second has",
        differences.len(),
        report::bytes(bytes)
    );
    Ok(())
}

/// The lock of a bundle, or one that lies beside it.
fn any_lock(path: &Path) -> Result<bundle::Lock, Failure> {
    if path
        .extension()
        .is_some_and(|extension| extension == "yaml")
    {
        return read_lock(path)?.ok_or_else(|| {
            Failure::configuration(format!("{}: there is no such file", path.display()))
        });
    }
    Ok(Bundle::open(path)?.lock().clone())
}

fn inspect(path: &Path) -> Result<(), Failure> {
    let bundle = Bundle::open(path)?;
    let lock = bundle.lock();
    let join = |items: Vec<String>| items.join(", ");
    say!("{} ({})", lock.name, path.display());
    say!("  size           {}", report::bytes(bundle.size()));
    say!("  lock           {}", bundle.lock_digest());
    say!(
        "  kubernetes     {}",
        join(lock.kubernetes.iter().map(ToString::to_string).collect())
    );
    say!(
        "  architectures  {}",
        join(lock.architectures.iter().map(ToString::to_string).collect())
    );
    say!("  files          {}", lock.files.len());
    say!("  images         {}", lock.images.len());
    for set in &lock.packages {
        let (count, place) = (
            set.packages.len(),
            format!("{} {}", set.distribution, set.release),
        );
        say!("  packages       {count} for {place} {}", set.arch);
    }
    Ok(())
}

fn list(path: &Path) -> Result<(), Failure> {
    let bundle = Bundle::open(path)?;
    let line = |kind: &str, name: &str, size: u64, digest: &spec::Digest| {
        say!(
            "{kind:8} {:>11} {} {name}",
            report::bytes(size),
            &digest.hex()[..12]
        );
    };
    for file in &bundle.lock().files {
        let name = format!("{} {} {}", file.component, file.version, file.arch);
        line("file", &name, file.size, &file.digest);
    }
    for image in &bundle.lock().images {
        let size = image
            .platforms
            .iter()
            .flat_map(|p| &p.blobs)
            .map(|blob| blob.size)
            .sum();
        line(
            "image",
            &image.name.to_string(),
            size,
            &image.manifest.digest,
        );
    }
    for set in &bundle.lock().packages {
        for package in &set.packages {
            let place = format!("{} {}", set.distribution, set.release);
            let name = format!("{} {} ({place})", package.name, package.version);
            line("package", &name, package.size, &package.digest);
        }
    }
    Ok(())
}

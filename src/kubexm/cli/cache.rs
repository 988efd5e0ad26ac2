//! `kubexm cache`: what downloads are kept between builds.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Failure;
use super::out::say;
use crate::report;
use kubexm_bundle::Lock;
use kubexm_fetch::Cache;
use kubexm_fetch::store::{Kept, Unfinished};
use kubexm_types::Digest;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List what is kept, with sizes, and what is left of broken downloads
    Ls(Place),
    /// Read everything and compare all digests; removes what was changed
    Verify(Place),
    /// Remove what none of the given locks needs
    Gc(Gc),
}

#[derive(Debug, Args)]
pub struct Place {
    /// The cache
    #[arg(long, value_name = "DIR", env = "KUBEXM_CACHE")]
    cache: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Gc {
    #[command(flatten)]
    place: Place,
    /// Locks (<bundle>.lock.yaml) whose downloads are kept
    #[arg(long = "keep", value_name = "LOCK", required_unless_present = "all")]
    locks: Vec<PathBuf>,
    /// Remove everything
    #[arg(long, conflicts_with = "locks")]
    all: bool,
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
}

impl Place {
    fn open(&self) -> Result<Cache, Failure> {
        let folder = self.cache.clone().unwrap_or_else(Cache::default_dir);
        Ok(Cache::open(&folder)?)
    }
}

/// Runs one of the commands.
pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Ls(place) => list(&place.open()?),
        Command::Verify(place) => verify(&place.open()?),
        Command::Gc(arguments) => collect(&arguments),
    }
}

fn list(cache: &Cache) -> Result<(), Failure> {
    let kept = cache.kept()?;
    for Kept { digest, size, .. } in &kept {
        say!("{:>11} {digest}", report::bytes(*size));
    }
    let partial = cache.partials()?;
    for Unfinished { path, bytes, total } in &partial {
        let of = total.map_or_else(String::new, |total| format!(" of {}", report::bytes(total)));
        say!(
            "{:>11} {} (not complete{of})",
            report::bytes(*bytes),
            path.display()
        );
    }
    let total = kept.iter().map(|kept| kept.size).sum();
    say!(
        "{} blobs, {}; {} not complete",
        kept.len(),
        report::bytes(total),
        partial.len()
    );
    Ok(())
}

fn verify(cache: &Cache) -> Result<(), Failure> {
    let mut bad = Vec::new();
    let kept = cache.kept()?;
    for kept in &kept {
        if !cache.is_right(kept)? {
            cache.remove(kept)?;
            bad.push(kept.path.display().to_string());
        }
    }
    if bad.is_empty() {
        say!("{} blobs are what their digests say", kept.len());
        return Ok(());
    }
    Err(Failure::bundle(format!(
        "{} of {} blobs were changed and are removed; the next build downloads them again:\n  {}",
        bad.len(),
        kept.len(),
        bad.join("\n  ")
    )))
}

fn collect(arguments: &Gc) -> Result<(), Failure> {
    let cache = arguments.place.open()?;
    let mut needed: BTreeSet<Digest> = BTreeSet::new();
    for path in &arguments.locks {
        let wrong = |reason: &dyn std::fmt::Display| {
            Failure::configuration(format!("{}: {reason}", path.display()))
        };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
        let lock = Lock::from_yaml(&text).map_err(|reason| wrong(&reason))?;
        needed.extend(lock.blobs().keys().copied());
    }
    let (mut count, mut bytes) = (0usize, 0u64);
    for kept in cache.kept()? {
        if needed.contains(&kept.digest) {
            continue;
        }
        if !arguments.dry_run {
            cache.remove(&kept)?;
        }
        count += 1;
        bytes += kept.size;
    }
    let mut broken_off = 0usize;
    for partial in cache.partials()? {
        if partial.is_of(&needed) || !(arguments.dry_run || cache.forget(&partial)?) {
            continue;
        }
        broken_off += 1;
        bytes += partial.bytes;
    }
    if !arguments.dry_run {
        for stray in cache.strays()? {
            // The next one finds it again.
            let _ = std::fs::remove_file(stray);
        }
    }
    let verb = if arguments.dry_run {
        "would be removed"
    } else {
        "removed"
    };
    say!(
        "{count} blobs and {broken_off} incomplete downloads {verb}, {}",
        report::bytes(bytes)
    );
    Ok(())
}

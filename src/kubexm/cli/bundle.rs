//! `kubexm bundle`: make and look into bundles.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::Failure;
use super::add::{self, Add};
use super::build::{self, Build, Lock, read_lock};
use super::copies::{self, Apply, Join, Keygen, Sign, Split};
use super::export::{self, Export};
use super::extract::{self, Extract};
use super::out::say;
use super::outdated::{self, Outdated};
use super::pull::{self, Pull};
use super::push::{self, Push};
use super::remove::{self, Remove};
use super::sbom::{self, Sbom};
use super::subject::Opening;
use super::vulnerabilities::{self, Vulnerabilities};
use crate::report;
use kubexm_bundle::Bundle;
use kubexm_bundle::format::volumes::check_volume;
use kubexm_bundle::lock::difference::differences;
use kubexm_bundle::read::publishers::{Publishers, claimed};
use kubexm_fetch::signatures::trusted_root_at;
use kubexm_types::Arch;
use kubexm_types::event::Events;

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
    /// Say what has newer releases than the bundle
    Outdated(Outdated),
    /// Take single programs, files or packages out of a bundle
    Extract(Extract),
    /// List what a bundle is made of, down to the packages and modules in its images and programs
    Sbom(Sbom),
    /// Hold what a bundle is made of against a database of vulnerabilities that you give
    Vulnerabilities(Vulnerabilities),
    /// Cut a bundle into volumes, or volumes into others
    Split(Split),
    /// Make one file of a bundle's volumes
    Join(Join),
    /// Sign a bundle with a minisign key
    Sign(Sign),
    /// Make a pair of keys to sign bundles with
    Keygen(Keygen),
    /// Make a whole bundle of one that carries only what was new, and those it leans on
    Apply(Apply),
    /// Write images of a bundle as an OCI image layout or for `docker load`
    Export(Export),
    /// Add images, files, charts and manifests of your own to a bundle
    Add(Add),
    /// Take things out of a bundle, unless something in it needs them
    Remove(Remove),
    /// Send a whole bundle to a registry; what it has already is not sent again
    Push(Push),
    /// Fetch a whole bundle from a registry
    Pull(Pull),
}

impl Command {
    /// Whether it does something that takes its time, and tells of it by events.
    pub fn tells(&self) -> bool {
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
                | C::Apply(_)
        )
    }
}

#[derive(Debug, Args)]
pub struct File {
    /// The bundle
    bundle: PathBuf,
    /// Only what is for this architecture
    #[arg(long)]
    arch: Option<Arch>,
    #[command(flatten)]
    opening: Opening,
}

impl File {
    /// The bundle, and what of its content is meant.
    fn open(&self) -> Result<(Bundle, kubexm_bundle::Lock), Failure> {
        let bundle = self.opening.open(&self.bundle)?;
        let lock = match self.arch {
            Some(arch) => bundle.lock().only_for(arch)?,
            None => bundle.lock().clone(),
        };
        Ok((bundle, lock))
    }
}

#[derive(Debug, Args)]
pub struct Verify {
    /// The bundle, any of its volumes, or a volume of which the others are elsewhere
    bundle: PathBuf,
    #[command(flatten)]
    opening: Opening,
    /// Just the volume that is named, against the list beside it
    #[arg(long, conflicts_with = "quick")]
    alone: bool,
    /// Look at the index and the table of places only, which takes no time
    #[arg(long)]
    quick: bool,
    /// The roots of a Sigstore of your own (trusted_root.json), for images that are signed under them;
    /// may be repeated
    #[arg(long, value_name = "FILE", conflicts_with_all = ["alone", "quick"])]
    trusted_root: Vec<PathBuf>,
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
        Command::Inspect(file) => inspect(&file),
        Command::List(file) => list(&file),
        Command::Diff(arguments) => diff(&arguments),
        Command::Outdated(arguments) => outdated::run(&arguments, events).await,
        Command::Extract(arguments) => extract::run(&arguments),
        Command::Export(arguments) => export::run(arguments, events).await,
        Command::Add(arguments) => add::run(arguments, events).await,
        Command::Remove(arguments) => remove::run(arguments, events).await,
        Command::Push(arguments) => push::run(arguments, events).await,
        Command::Pull(arguments) => pull::run(arguments, events).await,
        Command::Sbom(arguments) => sbom::run(&arguments),
        Command::Vulnerabilities(arguments) => vulnerabilities::run(&arguments),
        Command::Verify(arguments) => verify(&arguments, events),
        Command::Split(arguments) => copies::split(arguments, events).await,
        Command::Join(arguments) => copies::join(arguments, events).await,
        Command::Sign(arguments) => copies::sign(arguments, events).await,
        Command::Keygen(arguments) => copies::keygen(&arguments),
        Command::Apply(arguments) => copies::apply(arguments, events).await,
    }
}

fn verify(arguments: &Verify, events: &Events) -> Result<(), Failure> {
    let path = arguments.bundle.display();
    if arguments.alone {
        check_volume(&arguments.bundle, arguments.opening.folders())?;
        say!("{path}: the volume is what the list says");
        return Ok(());
    }
    let bundle = arguments.opening.open(&arguments.bundle)?;
    if arguments.quick {
        say!("{path}: the index fits the file; no content was read");
        return Ok(());
    }
    bundle.verify(threads(), events)?;
    bundle.verify_made(events)?;
    say!("{path}: every blob is what its digest says");
    let roots = arguments.trusted_root.iter();
    let roots: Vec<_> = roots
        .map(|path| trusted_root_at(path))
        .collect::<Result<_, _>>()?;
    tell(&bundle.verify_publishers(&roots)?);
    Ok(())
}

/// What publishers have signed.
fn tell(publishers: &Publishers) {
    for (signer, count) in &publishers.verified {
        say!("  {count}: signed by {signer}");
    }
    if publishers.elsewhere > 0 {
        let count = publishers.elsewhere;
        say!("  {count}: their signatures are in the bundle that this one leans on");
    }
    for name in &publishers.under_other_roots {
        say!("  not verified: {name} is signed under roots of its own; give --trusted-root");
    }
}

/// One thread a core.
pub fn threads() -> usize {
    kubexm_bundle::cores().get()
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
    let new = after.blobs().iter();
    let bytes: u64 = new
        .filter(|(digest, _)| !had.contains_key(digest))
        .map(|(_, blob)| blob.size)
        .sum();
    say!(
        "{} differences; {} that only the second has",
        differences.len(),
        report::bytes(bytes)
    );
    Ok(())
}

/// The lock of a bundle, or one that lies beside it.
pub(super) fn any_lock(path: &Path) -> Result<kubexm_bundle::Lock, Failure> {
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

fn inspect(file: &File) -> Result<(), Failure> {
    let (bundle, lock) = file.open()?;
    let join = |items: Vec<String>| items.join(", ");
    say!("{} ({})", lock.name, bundle.path().display());
    say!("  size           {}", report::bytes(bundle.size()));
    if let Some(volumes) = bundle.volumes() {
        say!("  volumes        {volumes}");
    }
    if let Some(base) = bundle.base() {
        say!(
            "  leans on       {} for {} of {} blobs",
            base.name,
            base.blobs.len(),
            bundle.lock().blobs().len()
        );
    }
    if let Some(key) = bundle.signed_by() {
        say!("  signed by      key {key}");
    }
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
    for (signer, count) in claimed(&lock) {
        say!("  signed         {count} by {signer}");
    }
    if !lock.own.is_empty() {
        say!("  your own       {}", lock.own.len());
    }
    for set in &lock.packages {
        let (count, place) = (
            set.packages.len(),
            format!("{} {}", set.distribution, set.release),
        );
        say!("  packages       {count} for {place} {}", set.arch);
    }
    Ok(())
}

fn list(file: &File) -> Result<(), Failure> {
    let (_, lock) = file.open()?;
    let line = |kind: &str, name: &str, size: u64, digest: &kubexm_types::Digest| {
        say!(
            "{kind:8} {:>11} {} {name}",
            report::bytes(size),
            &digest.hex()[..12]
        );
    };
    for file in &lock.files {
        let name = format!("{} {} {}", file.component, file.version, file.arch);
        line("file", &name, file.size, &file.digest);
        if let Some(signature) = &file.signature {
            let digest = &signature.signature.digest.hex()[..12];
            say!("{:8} signed by {} ({digest})", "", signature.by);
        }
    }
    for image in &lock.images {
        let blobs = image.platforms.iter().flat_map(|p| &p.blobs);
        let blobs: BTreeMap<_, _> = blobs.map(|blob| (blob.digest, blob.size)).collect();
        let arches: Vec<&str> = image.platforms.iter().map(|p| p.arch.name()).collect();
        line(
            "image",
            &format!("{} ({})", image.name, arches.join(", ")),
            blobs.values().sum(),
            &image.manifest.digest,
        );
        if let Some(signature) = &image.signature {
            let manifest = &signature.manifest.digest.hex()[..12];
            say!("{:8} signed by {} ({manifest})", "", signature.by);
        }
    }
    for own in &lock.own {
        let name = match &own.version {
            Some(version) => format!("{} {version}", own.name),
            None => own.name.clone(),
        };
        line(own.kind.name(), &name, own.size, &own.digest);
        for image in &own.images {
            let there = lock.image(image).is_some();
            let note = if there { "" } else { " (not in the bundle)" };
            say!("{:8} runs {image}{note}", "");
        }
    }
    for set in &lock.packages {
        for package in &set.packages {
            let place = format!("{} {} {}", set.distribution, set.release, set.arch);
            let name = format!("{} {} ({place})", package.name, package.version);
            line("package", &name, package.size, &package.digest);
        }
    }
    Ok(())
}

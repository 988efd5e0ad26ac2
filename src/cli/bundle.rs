//! `kubexm bundle`: make and look into bundles.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};

use super::extract::{self, Extract};
use super::out::say;
use super::{Failure, interrupt};
use crate::bundle::difference::differences;
use crate::bundle::{self, Blobs, Bundle, BundleError, Lock, PackOptions};
use crate::catalog::Catalog;
use crate::deploy::proof;
use crate::event::Events;
use crate::fetch::resolve::Resolver;
use crate::fetch::{Cache, Http};
use crate::report;
use crate::spec::manifest::Mirrors;
use crate::spec::{self, Cluster};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Download, verify and pack everything that a manifest names
    Build(Build),
    /// Say what a bundle is and whether its index fits
    Inspect(File),
    /// Read every byte of a bundle and compare all digests
    Verify(File),
    /// List every file, image and package of a bundle
    List(File),
    /// Say what differs between two bundles or locks
    Diff(Diff),
    /// Take single programs, files or packages out of a bundle
    Extract(Extract),
}

#[derive(Debug, Args)]
pub struct Build {
    /// The bundle manifest
    #[arg(short, long, value_name = "MANIFEST")]
    file: PathBuf,
    /// Where the bundle is written; its lock goes beside it
    #[arg(short, long, value_name = "BUNDLE")]
    out: PathBuf,
    /// Prove the bundle complete for this cluster, instead of the default shape
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<PathBuf>,
    /// Mirrors to ask instead of the public addresses
    #[arg(long, value_name = "MIRRORS")]
    mirrors: Option<PathBuf>,
    /// Where downloads are kept between builds
    #[arg(long, value_name = "DIR", env = "KUBEXM_CACHE")]
    cache: Option<PathBuf>,
    /// Fail where the bundle would not be what its lock says, instead of writing a new lock
    #[arg(long)]
    locked: bool,
    /// Compression level, 1 (fast) to 19 (small)
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(i32).range(1..=19))]
    level: i32,
}

#[derive(Debug, Args)]
pub struct File {
    /// The bundle
    bundle: PathBuf,
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
        Command::Build(arguments) => build(arguments, events).await,
        Command::Inspect(File { bundle }) => inspect(&bundle),
        Command::List(File { bundle }) => list(&bundle),
        Command::Diff(arguments) => diff(&arguments),
        Command::Extract(arguments) => extract::run(&arguments),
        Command::Verify(File { bundle }) => {
            let opened = Bundle::open(&bundle)?;
            opened.verify(threads(), events)?;
            say!("{}: every blob is what its digest says", bundle.display());
            Ok(())
        }
    }
}

/// One thread a core.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

async fn build(arguments: Build, events: &Events) -> Result<(), Failure> {
    let stop = interrupt::watch(events, interrupt::STOPPING_BUILD);
    let manifest = spec::load_manifest(&arguments.file)?;
    let cluster = arguments
        .cluster
        .as_deref()
        .map(|path| spec::load_cluster_for(path, &manifest.kubernetes))
        .transpose()?;
    let mirrors = match &arguments.mirrors {
        Some(path) => spec::load_mirrors(path)?,
        None => Mirrors::default(),
    };
    // Said now, not after everything was downloaded.
    bundle::check_folder(&arguments.out)?;
    let catalog = Catalog::embedded()?;
    let cache = Cache::open(&arguments.cache.clone().unwrap_or_else(Cache::default_dir))?;
    let lock_path = lock_path(&arguments.out);
    let previous = read_lock(&lock_path)?;
    if arguments.locked && previous.is_none() {
        let path = lock_path.display();
        let words = format!("{path}: there is no lock; build once without --locked to get one");
        return Err(Failure::configuration(words));
    }
    let http = Http::new(mirrors, cache.clone(), events.clone())?;
    let resolver = Resolver {
        http: &http,
        catalog: &catalog,
        previous: previous.as_ref(),
    };
    let resolved = async {
        let lock = resolver.build(&manifest).await?;
        prove(&resolver, &catalog, &lock, cluster.as_ref(), events).await?;
        Ok::<Lock, Failure>(lock)
    };
    let lock = tokio::select! {
        lock = resolved => lock?,
        () = stop.cancelled() => return Err(BundleError::Stopped.into()),
    };
    if arguments.locked {
        refuse_drift(previous.as_ref(), &lock, &lock_path)?;
    }
    events.phase("pack");
    let options = PackOptions {
        level: arguments.level,
        threads: threads() as u32,
    };
    let (path, packed, listener) = (arguments.out.clone(), lock.clone(), events.clone());
    let written = tokio::task::spawn_blocking(move || {
        let stop = || stop.is_cancelled();
        bundle::write_until(&path, &packed, &cache, options, &listener, &stop)
    })
    .await
    .map_err(Failure::bundle)??;
    write_lock(&lock_path, &lock)?;
    let content: u64 = lock.blobs().values().map(|(size, _)| size).sum();
    say!("{}", arguments.out.display());
    say!(
        "  size     {} ({} of content)",
        report::bytes(written.size),
        report::bytes(content)
    );
    say!("  sha256   {}", written.digest.hex());
    say!("  lock     {}", lock_path.display());
    Ok(())
}

fn refuse_drift(previous: Option<&Lock>, lock: &Lock, path: &Path) -> Result<(), Failure> {
    let Some(previous) = previous.filter(|previous| *previous != lock) else {
        return Ok(());
    };
    let mut list: Vec<String> = differences(previous, lock)
        .iter()
        .map(ToString::to_string)
        .collect();
    if list.is_empty() {
        list.push(
            "the same content by other addresses, checksums or answers of kubeadm".to_owned(),
        );
    }
    Err(Failure::bundle(format!(
        "the bundle would not be what {} says; nothing was written\n  {}\nBuild without --locked to \
         take this over.",
        path.display(),
        list.join("\n  ")
    )))
}

/// Proves that every cluster in question can be installed from what the lock names.
async fn prove(
    resolver: &Resolver<'_>,
    catalog: &Catalog,
    lock: &Lock,
    cluster: Option<&Cluster>,
    events: &Events,
) -> Result<(), Failure> {
    events.phase("prove");
    let clusters = match cluster {
        Some(cluster) => vec![cluster.clone()],
        None => lock
            .kubernetes
            .iter()
            .map(spec::default_cluster)
            .collect::<Result<_, _>>()?,
    };
    let blobs: Arc<dyn Blobs> = Arc::new(resolver.http.cache().clone());
    let mut findings = catalog.incompatibilities(lock);
    for cluster in &clusters {
        let (lacking, configs) = proof::prove(cluster, lock, &blobs)?;
        findings.extend(lacking);
        let version = &cluster.kubernetes.version;
        if !lock.kubernetes.contains(version) {
            continue;
        }
        let kubeadm = resolver.kubeadm(version, &lock.files).await?;
        for config in configs {
            if let Err(words) = kubeadm.validate(&config.text).await? {
                findings.push(format!(
                    "{}: kubeadm {version} refuses its configuration: {words}",
                    config.title
                ));
            }
        }
    }
    for facts in &lock.kubeadm {
        if facts.minimum_etcd.is_none() {
            events.note(format!(
                "kubeadm {} did not say which external etcd it takes",
                facts.version
            ));
        }
    }
    if findings.is_empty() {
        return Ok(());
    }
    let list = findings.join("\n  ");
    Err(Failure::bundle(format!(
        "the bundle would not be complete; nothing was written\n  {list}"
    )))
}

fn lock_path(out: &Path) -> PathBuf {
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(".tar.zst").unwrap_or(&name);
    out.with_file_name(format!("{stem}.lock.yaml"))
}

fn read_lock(path: &Path) -> Result<Option<Lock>, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => Lock::from_yaml(&text)
            .map(Some)
            .map_err(|reason| Failure::configuration(format!("{}: {reason}", path.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::configuration(format!(
            "{}: {error}",
            path.display()
        ))),
    }
}

fn write_lock(path: &Path, lock: &Lock) -> Result<(), Failure> {
    let fail =
        |error: &dyn std::fmt::Display| Failure::bundle(format!("{}: {error}", path.display()));
    let text = serde_saphyr::to_string(lock).map_err(|error| fail(&error))?;
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    let mut partial = tempfile::Builder::new()
        .prefix(".kubexm-lock-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .map_err(|error| fail(&error))?;
    std::io::Write::write_all(&mut partial, text.as_bytes())
        .and_then(|()| partial.as_file().sync_all())
        .map_err(|error| fail(&error))?;
    partial
        .persist(path)
        .map(|_| ())
        .map_err(|error| fail(&error.error))
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
fn any_lock(path: &Path) -> Result<Lock, Failure> {
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
            let name = format!("{} {} ({})", package.name, package.version, set.release);
            line("package", &name, package.size, &package.digest);
        }
    }
    Ok(())
}

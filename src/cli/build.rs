//! `kubexm bundle build` and `kubexm bundle lock`: the connected side.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::bundle::threads;
use super::out::say;
use super::{Failure, interrupt};
use crate::bundle::difference::differences;
use crate::bundle::{self, Blobs, BundleError, PackOptions, Storage, Written};
use crate::catalog::{self, Catalog};
use crate::deploy::proof;
use crate::event::Events;
use crate::fetch::resolve::Resolver;
use crate::fetch::{Cache, Http};
use crate::plan::Stop;
use crate::report;
use crate::spec::{self, Cluster, Mirrors};

/// Where everything comes from.
#[derive(Debug, Args)]
pub struct Sources {
    /// The bundle manifest
    #[arg(short, long, value_name = "MANIFEST")]
    file: PathBuf,
    /// Prove the bundle complete for this cluster, instead of the default shape
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<PathBuf>,
    /// A named set of mirrors to ask before the public addresses
    #[arg(long = "mirror", value_name = "SET", value_parser = mirror_sets())]
    mirror_set: Option<String>,
    /// Mirrors to ask instead of the public addresses; they win over --mirror
    #[arg(long, value_name = "MIRRORS")]
    mirrors: Option<PathBuf>,
    /// Trust the authorities in this PEM file, besides the system's
    #[arg(long, value_name = "FILE")]
    ca: Vec<PathBuf>,
    /// Connections to one host at once [default: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    connections: Option<u16>,
    /// Where downloads are kept between builds
    #[arg(long, value_name = "DIR", env = "KUBEXM_CACHE")]
    cache: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Lock {
    #[command(flatten)]
    sources: Sources,
    /// Where the lock is written; what it says already is kept
    #[arg(short, long, value_name = "LOCK")]
    out: PathBuf,
}

#[derive(Debug, Args)]
pub struct Build {
    #[command(flatten)]
    sources: Sources,
    /// Where the bundle is written; its lock goes beside it
    #[arg(short, long, value_name = "BUNDLE")]
    out: PathBuf,
    /// Fail where the bundle would not be what its lock says, instead of writing a new lock
    #[arg(long)]
    locked: bool,
    /// Compression level, 1 (fast) to 19 (small)
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(i32).range(1..=19))]
    level: i32,
    /// How gzip layers and archives are held: `open` makes the bundle a third smaller, and an install
    /// compresses them again; `keep` leaves an image layout that every tool reads
    #[arg(long, value_enum, default_value_t = Layers::Open)]
    layers: Layers,
    /// A larger bundle in less time: `--level 3 --layers keep`
    #[arg(long, conflicts_with_all = ["level", "layers"])]
    fast: bool,
}

/// How gzip blobs are held in a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Layers {
    /// As their content, wherever the very same bytes can be made of it again.
    Open,
    /// As they came.
    Keep,
}

impl Build {
    fn level(&self) -> i32 {
        if self.fast { 3 } else { self.level }
    }

    fn layers(&self) -> Layers {
        if self.fast { Layers::Keep } else { self.layers }
    }
}

/// Builds a bundle.
pub async fn build(arguments: Build, events: &Events) -> Result<(), Failure> {
    let stop = interrupt::watch(events, interrupt::STOPPING_BUILD);
    // Said now, not after everything was downloaded.
    bundle::check_folder(&arguments.out)?;
    let lock_path = lock_path(&arguments.out);
    let previous = read_lock(&lock_path)?;
    if arguments.locked && previous.is_none() {
        let path = lock_path.display();
        let words = format!("{path}: there is no lock; build once without --locked to get one");
        return Err(Failure::configuration(words));
    }
    let (lock, cache) = arguments
        .sources
        .resolve(previous.as_ref(), events, &stop)
        .await?;
    if arguments.locked {
        refuse_drift(previous.as_ref(), &lock, &lock_path)?;
    }
    let (packed, listener) = (lock.clone(), events.clone());
    let (level, layers, path) = (arguments.level(), arguments.layers(), arguments.out.clone());
    let written = tokio::task::spawn_blocking(move || {
        pack(&path, &packed, &cache, level, layers, &listener, &stop)
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

fn pack(
    path: &Path,
    lock: &bundle::Lock,
    cache: &Cache,
    level: i32,
    layers: Layers,
    events: &Events,
    stop: &Stop,
) -> Result<Written, BundleError> {
    let stop = || stop.is_cancelled();
    let storage = match layers {
        Layers::Keep => Storage::plain(lock),
        Layers::Open => {
            events.phase("open");
            let openings = bundle::openings(lock, cache, cache, threads(), events, &stop)?;
            bundle::arrange(lock, &openings)
        }
    };
    events.phase("pack");
    let options = PackOptions {
        level,
        threads: threads() as u32,
    };
    bundle::write_until(path, lock, &storage, cache, options, events, &stop)
}

fn refuse_drift(
    previous: Option<&bundle::Lock>,
    lock: &bundle::Lock,
    path: &Path,
) -> Result<(), Failure> {
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

/// Writes the lock of a bundle that is not built.
pub async fn lock(arguments: Lock, events: &Events) -> Result<(), Failure> {
    let stop = interrupt::watch(events, interrupt::STOPPING_BUILD);
    let previous = read_lock(&arguments.out)?;
    let resolving = arguments.sources.resolve(previous.as_ref(), events, &stop);
    let (lock, _) = resolving.await?;
    write_lock(&arguments.out, &lock)?;
    for difference in previous.iter().flat_map(|old| differences(old, &lock)) {
        say!("{difference}");
    }
    say!("{}", arguments.out.display());
    Ok(())
}

/// Names that `--mirror` takes.
fn mirror_sets() -> clap::builder::PossibleValuesParser {
    catalog::mirror_sets().into()
}

impl Sources {
    /// What the options say: themselves first, then the file, then the named set.
    fn mirrors(&self) -> Result<Mirrors, Failure> {
        let mut mirrors = match &self.mirrors {
            Some(path) => spec::load_mirrors(path)?,
            None => Mirrors::default(),
        };
        if let Some(name) = &self.mirror_set {
            mirrors = mirrors.over(catalog::mirrors(name)?);
        }
        mirrors.ca.extend(self.ca.iter().cloned());
        mirrors.connections = self.connections.map(usize::from).or(mirrors.connections);
        Ok(mirrors)
    }

    /// Downloads everything into the cache, and proves that it is complete.
    async fn resolve(
        &self,
        previous: Option<&bundle::Lock>,
        events: &Events,
        stop: &Stop,
    ) -> Result<(bundle::Lock, Cache), Failure> {
        let manifest = spec::load_manifest(&self.file)?;
        let cluster = self
            .cluster
            .as_deref()
            .map(|path| spec::load_cluster_for(path, &manifest.kubernetes))
            .transpose()?;
        let catalog = Catalog::embedded()?;
        let mirrors = self.mirrors()?;
        let cache = Cache::open(&self.cache.clone().unwrap_or_else(Cache::default_dir))?;
        let http = Http::new(mirrors, cache.clone(), events.clone())?;
        let resolver = Resolver {
            http: &http,
            catalog: &catalog,
            previous,
        };
        let resolved = async {
            let lock = resolver.build(&manifest).await?;
            prove(&resolver, &catalog, &lock, cluster.as_ref(), events).await?;
            Ok::<_, Failure>(lock)
        };
        tokio::select! {
            lock = resolved => Ok((lock?, cache)),
            () = stop.cancelled() => Err(BundleError::Stopped.into()),
        }
    }
}

/// Proves that every cluster in question can be installed from what the lock names.
async fn prove(
    resolver: &Resolver<'_>,
    catalog: &Catalog,
    lock: &bundle::Lock,
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

pub(super) fn read_lock(path: &Path) -> Result<Option<bundle::Lock>, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => bundle::Lock::from_yaml(&text)
            .map(Some)
            .map_err(|reason| Failure::configuration(format!("{}: {reason}", path.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::configuration(format!(
            "{}: {error}",
            path.display()
        ))),
    }
}

fn write_lock(path: &Path, lock: &bundle::Lock) -> Result<(), Failure> {
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

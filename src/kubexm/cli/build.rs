//! `kubexm bundle build` and `kubexm bundle lock`: the connected side.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use futures_util::future::try_join_all;

use super::bundle::threads;
use super::downloads::Downloads;
use super::out::say;
use super::sbom::Beside;
use super::volume_size::{VolumeSize, at_most};
use super::{Failure, base, copies, interrupt};
use crate::report;
use kubexm_bundle::format::placement::Base;
use kubexm_bundle::lock::difference::differences;
use kubexm_bundle::{
    Blobs, Bundle, BundleError, Level, PackOptions, Placement, Signed, Signer, Written,
};
use kubexm_catalog::Catalog;
use kubexm_config::Cluster;
use kubexm_deploy::proof;
use kubexm_engine::plan::Stop;
use kubexm_fetch::Cache;
use kubexm_fetch::resolve::Resolver;
use kubexm_fetch::signatures::Policies;
use kubexm_types::event::Events;
use kubexm_types::{Arch, Digest, write_atomic};

/// Where everything comes from.
#[derive(Debug, Args)]
pub struct Sources {
    /// The bundle manifest
    #[arg(short, long, value_name = "MANIFEST")]
    file: PathBuf,
    /// Prove the bundle complete for this cluster, instead of the default shape
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<PathBuf>,
    /// Only for these architectures, whatever the manifest says, as in amd64,arm64; may be repeated
    #[arg(long, value_delimiter = ',')]
    arch: Vec<Arch>,
    #[command(flatten)]
    downloads: Downloads,
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
    #[arg(long, default_value_t)]
    level: Level,
    /// How gzip layers and archives are held: `open` halves the bundle, and an install
    /// compresses them again; `keep` leaves an image layout that every tool reads
    #[arg(long, value_enum, default_value_t = Layers::Open)]
    layers: Layers,
    /// A larger bundle in less time: `--level 3 --layers keep`
    #[arg(long, conflicts_with_all = ["level", "layers"])]
    fast: bool,
    /// Carry only what these lack: bundles, their locks, or inventories of the site
    #[arg(long, value_name = "FILE")]
    base: Vec<PathBuf>,
    /// Write volumes of at most this size, as in 4GiB (what FAT32 takes)
    #[arg(long, value_name = "SIZE", value_parser = at_most)]
    split: Option<VolumeSize>,
    /// Sign it with this minisign secret key; its password is read from KUBEXM_KEY_PASSWORD, or asked
    /// for
    #[arg(long, value_name = "FILE")]
    sign: Option<PathBuf>,
    /// Write what the bundle is made of, too: `cyclonedx-json`, unless the name ends in `.spdx.json`
    /// or another format of `bundle sbom` follows
    #[arg(long, value_name = "FILE[,FORMAT]", conflicts_with = "base")]
    sbom: Option<Beside>,
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
    fn level(&self) -> Level {
        if self.fast { Level::FAST } else { self.level }
    }

    fn layers(&self) -> Layers {
        if self.fast { Layers::Keep } else { self.layers }
    }
}

/// Builds a bundle.
pub async fn build(arguments: Build, events: &Events) -> Result<(), Failure> {
    let stop = interrupt::watch(events, interrupt::STOPPING_BUILD);
    // Said now, not after everything was downloaded.
    kubexm_bundle::check_folder(&arguments.out)?;
    let signer = arguments.sign.as_deref().map(copies::signer).transpose()?;
    let site = base::read(&arguments.base)?;
    arguments.sbom.as_ref().map_or(Ok(()), Beside::check)?;
    let lock_path = lock_path(&arguments.out);
    let previous = read_lock(&lock_path)?;
    if arguments.locked && previous.is_none() {
        let path = lock_path.display();
        let words = format!("{path}: there is no lock; build once without --locked to get one");
        return Err(Failure::configuration(words));
    }
    let (lock, cache) = arguments
        .sources
        .resolve(
            previous.as_ref(),
            base::bundles(&arguments.base)?,
            events,
            &stop,
        )
        .await?;
    if arguments.locked {
        refuse_drift(previous.as_ref(), &lock, &lock_path)?;
    }
    let wanted: BTreeSet<Digest> = lock.blobs().keys().copied().collect();
    let base = site.and_then(|(site, digest)| site.base(digest, &wanted));
    if base.is_none() && !arguments.base.is_empty() {
        events.warn("--base: what is there already has nothing of this bundle; it carries all");
    }
    let (listener, packing) = (
        events.clone(),
        Packing {
            path: arguments.out.clone(),
            lock: lock.clone(),
            cache,
            layers: arguments.layers(),
            level: arguments.level(),
            volume: arguments.split.map(VolumeSize::bytes),
            base,
            signer,
        },
    );
    let written = tokio::task::spawn_blocking(move || packing.pack(&listener, &stop))
        .await
        .map_err(Failure::bundle)??;
    write_lock(&lock_path, &lock)?;
    copies::tell(events, &arguments.out, written, arguments.split);
    let content = kubexm_bundle::lock::blob_index::content_size(lock.blobs());
    say!("  content  {}", report::bytes(content));
    say!("  lock     {}", lock_path.display());
    if let Some(sbom) = arguments.sbom {
        events.phase("sbom");
        sbom.write(&arguments.out)?;
    }
    Ok(())
}

/// What is packed, and how.
struct Packing {
    path: PathBuf,
    lock: kubexm_bundle::Lock,
    cache: Cache,
    layers: Layers,
    level: Level,
    volume: Option<u64>,
    base: Option<Base>,
    signer: Option<Signer>,
}

impl Packing {
    fn pack(self, events: &Events, stop: &Stop) -> Result<Written, BundleError> {
        let (lock, cache) = (&self.lock, &self.cache);
        let stop = || stop.is_cancelled();
        let mut storage = match self.layers {
            Layers::Keep => Placement::plain(lock),
            Layers::Open => {
                events.phase("open");
                let openings =
                    kubexm_bundle::openings(lock, cache, cache, threads(), events, &stop)?;
                kubexm_bundle::arrange(lock, &openings)
            }
        };
        if let Some(base) = self.base {
            storage = storage.without(base);
        }
        events.phase("pack");
        let options = PackOptions {
            level: self.level,
            threads: threads() as u32,
            volume: self.volume,
            signed: self.signer.as_ref().map_or(Signed::No, Signed::By),
        };
        kubexm_bundle::write_until(&self.path, lock, &storage, cache, options, events, &stop)
    }
}

fn refuse_drift(
    previous: Option<&kubexm_bundle::Lock>,
    lock: &kubexm_bundle::Lock,
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
    let resolving = arguments.sources;
    let resolving = resolving.resolve(previous.as_ref(), Vec::new(), events, &stop);
    let (lock, _) = resolving.await?;
    write_lock(&arguments.out, &lock)?;
    for difference in previous.iter().flat_map(|old| differences(old, &lock)) {
        say!("{difference}");
    }
    say!("{}", arguments.out.display());
    Ok(())
}

impl Sources {
    /// Downloads everything that these bundles lack into the cache, and proves that it is complete.
    async fn resolve(
        &self,
        previous: Option<&kubexm_bundle::Lock>,
        at_hand: Vec<Bundle>,
        events: &Events,
        stop: &Stop,
    ) -> Result<(kubexm_bundle::Lock, Cache), Failure> {
        let mut manifest = kubexm_config::load_manifest(&self.file)?;
        if !self.arch.is_empty() {
            manifest.architectures.clone_from(&self.arch);
            manifest.architectures.sort();
            manifest.architectures.dedup();
        }
        let cluster = self
            .cluster
            .as_deref()
            .map(|path| kubexm_config::load_cluster_for(path, &manifest.kubernetes))
            .transpose()?;
        let catalog = Catalog::embedded()?;
        let http = self.downloads.http(events)?.beside(at_hand);
        let cache = http.cache().clone();
        let policies = Policies::load(&catalog, &manifest.signatures)?;
        let resolver = Resolver::new(&http, &catalog, previous, &policies);
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
    lock: &kubexm_bundle::Lock,
    cluster: Option<&Cluster>,
    events: &Events,
) -> Result<(), Failure> {
    events.phase("prove");
    let clusters = match cluster {
        Some(cluster) => vec![cluster.clone()],
        None => {
            let versions = lock.kubernetes.iter();
            let shapes = versions.map(|version| proof::default_clusters(lock, version));
            shapes.collect::<Result<Vec<_>, _>>()?.concat()
        }
    };
    let blobs: Arc<dyn Blobs> = Arc::new(resolver.http.cache().clone());
    let mut findings = catalog.incompatibilities(lock);
    for cluster in &clusters {
        let proof = proof::prove(cluster, lock, &blobs)?;
        findings.extend(proof.findings);
        let version = &cluster.kubernetes.version;
        if !lock.kubernetes.contains(version) {
            continue;
        }
        let kubeadm = resolver.kubeadm(version, &lock.files).await?;
        let asked = proof.configs.iter();
        let asked = try_join_all(asked.map(|config| kubeadm.validate(&config.text)));
        for (config, said) in proof.configs.iter().zip(asked.await?) {
            if let Err(words) = said {
                findings.push(format!(
                    "{}: kubeadm {version} refuses its configuration: {words}",
                    config.title
                ));
            }
        }
        for given in proof.patches {
            let (config, folder) = (&given.config, given.folder);
            if let Err(words) = kubeadm.apply(config, folder, &given.files).await? {
                let title = given.title;
                findings.push(format!("{title}: kubeadm {version} says: {words}"));
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

pub(super) fn lock_path(out: &Path) -> PathBuf {
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(".tar.zst").unwrap_or(&name);
    out.with_file_name(format!("{stem}.lock.yaml"))
}

pub(super) fn read_lock(path: &Path) -> Result<Option<kubexm_bundle::Lock>, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => kubexm_bundle::Lock::from_yaml(&text)
            .map(Some)
            .map_err(|reason| Failure::configuration(format!("{}: {reason}", path.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::configuration(format!(
            "{}: {error}",
            path.display()
        ))),
    }
}

pub(super) fn write_lock(path: &Path, lock: &kubexm_bundle::Lock) -> Result<(), Failure> {
    let text = serde_saphyr::to_string(lock)
        .map_err(|error| Failure::bundle(format!("{}: {error}", path.display())))?;
    write_text(path, &text)
}

/// Replaces the file with this text.
pub(super) fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    write_atomic(path, text.as_bytes(), 0o644)
        .map_err(|error| Failure::bundle(format!("{}: {error}", path.display())))
}

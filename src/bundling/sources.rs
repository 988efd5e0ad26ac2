//! Resolves a manifest: downloads everything that it names, and checks that clusters can be installed
//! from the result.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::completeness;
use kubexm_bundle::{Bundle, BundleError, Lock};
use kubexm_catalog::Catalog;
use kubexm_config::manifest::Manifest;
use kubexm_config::{Cluster, Mirrors};
use kubexm_fetch::Cache;
use kubexm_fetch::resolve::{LockComparison, Resolver};
use kubexm_fetch::signatures::{Policies, trusted_roots};
use kubexm_session::downloads::DownloadOptions;
use kubexm_session::{CommandError, Stop, notices};
use kubexm_types::event::Events;
use kubexm_types::{Arch, Message, WarningKind};

/// What a bundle is built from.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The bundle manifest.
    pub manifest: PathBuf,
    /// The cluster that must be installable from the bundle; `None` for the default clusters.
    pub cluster: Option<PathBuf>,
    /// The architectures that replace those of the manifest; empty to keep them.
    pub architectures: Vec<Arch>,
    /// Whether to keep digests of an existing lock that differ from what publishers state now.
    pub keep_locked: bool,
    /// Files with roots of Sigstore that are trusted in addition to the built-in one.
    pub trusted_roots: Vec<PathBuf>,
    /// How to download.
    pub downloads: DownloadOptions,
}

/// The files of the user.
pub struct SourceFiles {
    manifest: Manifest,
    cluster: Option<Cluster>,
    mirrors: Mirrors,
    catalog: Catalog,
    /// The signature policies of the catalog and of the manifest.
    policies: Policies,
}

impl Sources {
    /// Reads all files of the user, so that errors in them are reported before work that takes minutes.
    pub fn read(&self) -> Result<SourceFiles, CommandError> {
        let mut manifest = kubexm_config::load_manifest(&self.manifest)?;
        if !self.architectures.is_empty() {
            manifest.architectures.clone_from(&self.architectures);
            manifest.architectures.sort();
            manifest.architectures.dedup();
        }
        let cluster = self
            .cluster
            .as_deref()
            .map(|path| kubexm_config::load_cluster_for(path, &manifest.kubernetes))
            .transpose()?;
        let mirrors = self.downloads.mirrors()?;
        let catalog = Catalog::embedded()?;
        let roots = trusted_roots(&self.trusted_roots)?;
        let policies = Policies::load(&catalog, &manifest.signatures, &roots)?;
        Ok(SourceFiles {
            manifest,
            cluster,
            mirrors,
            catalog,
            policies,
        })
    }

    /// Downloads everything that neither the cache nor `local` contains, and returns the new lock.
    ///
    /// Versions and digests of `previous` are kept where the manifest still allows them.
    pub async fn resolve(
        &self,
        files: SourceFiles,
        previous: Option<&Lock>,
        local: Vec<Bundle>,
        events: &Events,
        stop: &Stop,
    ) -> Result<(Lock, Cache), CommandError> {
        let SourceFiles {
            manifest,
            cluster,
            mirrors,
            catalog,
            policies,
        } = files;
        notices::emit(&manifest.notices, events);
        if let Some(cluster) = &cluster {
            notices::emit(&cluster.notices, events);
        }
        let http = self.downloads.client(mirrors, events)?;
        let http = http.with_local_bundles(local);
        let cache = http.cache().clone();
        let mut resolver = Resolver::new(&http, &catalog, previous, &policies);
        if let Some(cluster) = &cluster {
            resolver.values = values_of_charts(cluster, events)?;
        }
        let resolved = async {
            if previous.is_some() {
                events.phase("compare");
                let mut found = resolver.compare_files(&manifest).await?;
                found.add(resolver.compare_packages(&manifest).await?);
                self.judge(found, events)?;
            }
            let lock = resolver.build(&manifest).await?;
            if previous.is_some() {
                self.judge(resolver.compare_images(&lock).await?, events)?;
            }
            completeness::check(&resolver, &catalog, &lock, cluster.as_ref(), events).await?;
            Ok::<_, CommandError>(lock)
        };
        tokio::select! {
            lock = resolved => Ok((lock?, cache)),
            () = stop.cancelled() => Err(BundleError::Stopped.into()),
        }
    }

    /// Fails if entries of the lock differ from what publishers state now, unless the user keeps them.
    fn judge(&self, found: LockComparison, events: &Events) -> Result<(), CommandError> {
        for publisher in &found.not_compared {
            events.warn(
                WarningKind::NotChecked,
                format!("the lock was not compared with {publisher}"),
            );
        }
        match (found.changed.is_empty(), self.keep_locked) {
            (true, _) => Ok(()),
            (false, false) => Err(CommandError::LockDiffers(found.changed)),
            (false, true) => {
                let changed = found.changed.iter();
                let changed: Vec<String> = changed.map(|entry| format!("  {entry}")).collect();
                events.warn(
                    WarningKind::LockDiffers,
                    format!(
                        "--keep-locked keeps digests that differ from their publishers:\n{}",
                        changed.join("\n")
                    ),
                );
                Ok(())
            }
        }
    }
}

/// Returns the values of the applications of a cluster by the names of their charts, and warns about those that this machine
/// cannot read.
///
/// # Errors
/// A file with values cannot be read.
pub(crate) fn values_of_charts(
    cluster: &Cluster,
    events: &Events,
) -> Result<BTreeMap<String, Vec<String>>, CommandError> {
    for (application, file) in kubexm_deploy::encrypted_values(cluster)? {
        let text = format!(
            "images of the application {application} are found without the values of {}: the file is encrypted",
            file.display()
        );
        let hint =
            "name images that only these values select in spec.images of the bundle manifest";
        events.warn(WarningKind::NotChecked, Message::new(text).hint(hint));
    }
    Ok(kubexm_deploy::values_of_charts(cluster)?)
}

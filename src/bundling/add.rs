//! `bundle add`: adds a user's own images, files, charts and manifests to a bundle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use crate::repack::{Repacked, Target};
use kubexm_bundle::lock::user_content::LockedArtifact;
use kubexm_bundle::{BundleError, Lock};
use kubexm_catalog::Catalog;
use kubexm_fetch::Http;
use kubexm_fetch::artifacts::{ArtifactFetcher, FetchedArtifact, Found, Renderers};
use kubexm_fetch::resolve::Resolver;
use kubexm_fetch::signatures::{Policies, trusted_roots};
use kubexm_session::downloads::DownloadOptions;
use kubexm_session::{BundleAccess, CommandError, Stop};
use kubexm_types::ImageRef;
use kubexm_types::artifact::ArtifactSource;
use kubexm_types::event::Events;

/// What to add, and to which bundle.
#[derive(Debug, Clone)]
pub struct AddOptions {
    /// The bundle.
    pub bundle: PathBuf,
    /// How it is opened.
    pub access: BundleAccess,
    /// Images.
    pub images: Vec<ImageRef>,
    /// Artifacts in OCI registries that are not images.
    pub artifacts: Vec<ImageRef>,
    /// Files, charts and manifests.
    pub sources: Vec<ArtifactSource>,
    /// Whether to add the images that pods of charts and manifests run.
    pub add_images: bool,
    /// Files with roots of Sigstore that are trusted in addition to the built-in one.
    pub trusted_roots: Vec<PathBuf>,
    /// How to download.
    pub downloads: DownloadOptions,
    /// The new bundle.
    pub target: Target,
}

/// What `bundle add` found and wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddReport {
    /// The files, charts and manifests that were added.
    pub added: Vec<Added>,
    /// The new bundle.
    pub repacked: Repacked,
}

/// A file, chart or manifest that was added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// Its kind, name and version.
    pub description: String,
    /// Why the list of images may be incomplete.
    pub doubt: Option<String>,
    /// The images that its pods run, each with what `add` did with it.
    pub images: Vec<(String, ImageUse)>,
}

/// What `add` did with an image that it found in a chart or manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageUse {
    /// The bundle already contains it.
    Present,
    /// It was added.
    Added,
    /// The user asked to leave images out.
    LeftOut,
    /// It may not be an image; it was left out.
    Guess,
    /// It cannot be read as the name of an image.
    Unreadable,
}

/// Downloads what is new, and writes the new bundle.
///
/// # Errors
/// There is nothing to add, a download fails, or a bundle cannot be read or written.
#[tracing::instrument(skip_all, fields(bundle = %options.bundle.display()))]
pub async fn add(
    options: &AddOptions,
    events: &Events,
    stop: &Stop,
) -> Result<AddReport, CommandError> {
    let names = options.images.iter().chain(&options.artifacts);
    if options.sources.is_empty() && names.count() == 0 {
        return Err(CommandError::configuration(
            "nothing to add: give --image, --artifact, --file, --chart or --manifest",
        ));
    }
    let old = Arc::new(options.access.open_complete(&options.bundle)?);
    options.target.check()?;
    let catalog = Catalog::embedded()?;
    let policies = Policies::load(&catalog, &[], &trusted_roots(&options.trusted_roots)?)?;
    let http = options.downloads.http(events)?;
    let cache = http.cache().clone();
    let renderers = Renderers::unpack(old.as_ref(), &old.lock().files, options.sources.iter())?;
    let (lock, added) = tokio::select! {
        resolved = options.resolve(old.lock(), renderers, &http, &catalog, &policies) => resolved?,
        () = stop.cancelled() => return Err(BundleError::Stopped.into()),
    };
    let packing = options.target.pack(old, lock, cache, events, stop);
    Ok(AddReport {
        added,
        repacked: packing.await?,
    })
}

impl AddOptions {
    /// Downloads everything that is new. Returns the new lock, and what was found.
    async fn resolve(
        &self,
        old: &Lock,
        renderers: Renderers,
        http: &Http,
        catalog: &Catalog,
        policies: &Policies,
    ) -> Result<(Lock, Vec<Added>), CommandError> {
        http.events().phase("download");
        let fetcher = ArtifactFetcher {
            http,
            previous: None,
            kubernetes: old.kubernetes.iter().max(),
            renderers,
            values: &BTreeMap::new(),
            paths: &old.image_paths,
        };
        let mut lock = old.clone();
        let mut images: BTreeSet<ImageRef> = self.images.iter().cloned().collect();
        let mut added = Vec::new();
        for source in &self.sources {
            let fetched = fetcher.fetch(source).await?;
            if self.add_images {
                images.extend(fetched.artifact.images.iter().cloned());
            }
            added.push(describe(&fetched, old, &images));
            replace(&mut lock, fetched.artifact);
        }
        images.retain(|name| old.image(name).is_none());
        let mut artifacts: BTreeSet<ImageRef> = self.artifacts.iter().cloned().collect();
        artifacts.retain(|name| old.image(name).is_none() && !images.contains(name));
        let resolver = Resolver::new(http, catalog, None, policies);
        lock.images
            .extend(resolver.pull(images, artifacts, &old.architectures).await?);
        lock.keep_unrecorded(old);
        lock.sort();
        Ok((lock, added))
    }
}

fn describe(fetched: &FetchedArtifact, old: &Lock, added: &BTreeSet<ImageRef>) -> Added {
    let used = |found: &Found| match &found.image {
        Ok(image) if old.image(image).is_some() => ImageUse::Present,
        Ok(image) if added.contains(image) => ImageUse::Added,
        Ok(_) if found.is_sure => ImageUse::LeftOut,
        Ok(_) => ImageUse::Guess,
        Err(_) => ImageUse::Unreadable,
    };
    let found = fetched.found.iter();
    Added {
        description: fetched.artifact.describe(),
        doubt: fetched.doubt.as_ref().map(ToString::to_string),
        images: found
            .map(|found| (found.to_string(), used(found)))
            .collect(),
    }
}

/// Adds a file, chart or manifest, and removes one of the same kind and name.
fn replace(lock: &mut Lock, own: LockedArtifact) {
    let same =
        |other: &LockedArtifact| other.kind == own.kind && other.file_name() == own.file_name();
    lock.artifacts.retain(|other| !same(other));
    lock.artifacts.push(own);
}

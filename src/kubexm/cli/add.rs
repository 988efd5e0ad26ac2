//! `kubexm bundle add`: the user's own images, files, charts and manifests into a bundle.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::downloads::Downloads;
use super::out::say;
use super::repack::Target;
use super::subject::Opening;
use super::{Failure, interrupt};
use kubexm_bundle::lock::user_content::LockedArtifact;
use kubexm_bundle::{BundleError, Lock};
use kubexm_catalog::Catalog;
use kubexm_fetch::Http;
use kubexm_fetch::own::{Found, Gathered, Gatherer};
use kubexm_fetch::resolve::Resolver;
use kubexm_fetch::signatures::Policies;
use kubexm_types::ImageRef;
use kubexm_types::event::Events;
use kubexm_types::own::{OwnKind, OwnPlace, OwnSource};

#[derive(Debug, Args)]
pub struct Add {
    /// The bundle
    bundle: PathBuf,
    #[command(flatten)]
    opening: Opening,
    /// An image by its full name, as in docker.io/library/nginx:1.29
    #[arg(long, value_name = "NAME")]
    image: Vec<ImageRef>,
    /// A file, under the name that it gets in the bundle
    #[arg(long, value_name = "NAME=PATH|URL", value_parser = named_file)]
    file: Vec<OwnSource>,
    /// A packed Helm chart; an address may be oci://registry/chart:version
    #[arg(long, value_name = "PATH|URL")]
    chart: Vec<OwnPlace>,
    /// Values to render the charts with, to find their images
    #[arg(long, value_name = "FILE", requires = "chart")]
    values: Vec<PathBuf>,
    /// Kubernetes manifests
    #[arg(long, value_name = "PATH|URL")]
    manifest: Vec<OwnPlace>,
    /// Only report the images that pods of charts and manifests run, instead of adding them
    #[arg(long)]
    no_images: bool,
    #[command(flatten)]
    downloads: Downloads,
    #[command(flatten)]
    target: Target,
}

fn named_file(text: &str) -> Result<OwnSource, String> {
    let (name, place) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or("wants NAME=PATH or NAME=URL")?;
    let place = OwnPlace::parse(place).map_err(|error| error.to_string())?;
    Ok(OwnSource {
        name: Some(name.to_owned()),
        ..OwnSource::new(OwnKind::File, place)
    })
}

/// Fetches what is new and writes the new bundle.
pub async fn run(arguments: Add, events: &Events) -> Result<(), Failure> {
    let stop = interrupt::watch(events, interrupt::STOPPING_BUILD);
    let sources = arguments.sources();
    if sources.is_empty() && arguments.image.is_empty() {
        let words = "nothing to add: give --image, --file, --chart or --manifest";
        return Err(Failure::configuration(words));
    }
    let old = Arc::new(arguments.opening.open_complete(&arguments.bundle)?);
    arguments.target.prepare()?;
    let http = arguments.downloads.http(events)?;
    let cache = http.cache().clone();
    let lock = tokio::select! {
        lock = arguments.resolve(old.lock(), &sources, &http) => lock?,
        () = stop.cancelled() => return Err(BundleError::Stopped.into()),
    };
    let target = &arguments.target;
    target.pack(old, lock, cache, events, &stop).await
}

impl Add {
    fn sources(&self) -> Vec<OwnSource> {
        let charts = self.chart.iter().map(|place| OwnSource {
            values: self.values.clone(),
            ..OwnSource::new(OwnKind::Chart, place.clone())
        });
        let manifests = self.manifest.iter();
        let manifests = manifests.map(|place| OwnSource::new(OwnKind::Manifest, place.clone()));
        self.file
            .iter()
            .cloned()
            .chain(charts)
            .chain(manifests)
            .collect()
    }

    /// The new lock, with all that it names besides the old one's in the cache.
    async fn resolve(
        &self,
        old: &Lock,
        sources: &[OwnSource],
        http: &Http,
    ) -> Result<Lock, Failure> {
        http.events().phase("download");
        let gatherer = Gatherer {
            http,
            previous: None,
            kubernetes: old.kubernetes.iter().max(),
        };
        let mut lock = old.clone();
        let mut images: BTreeSet<ImageRef> = self.image.iter().cloned().collect();
        for source in sources {
            let gathered = gatherer.gather(source).await?;
            if !self.no_images {
                images.extend(gathered.own.images.iter().cloned());
            }
            tell(&gathered, old, &images);
            put(&mut lock, gathered.own);
        }
        images.retain(|name| old.image(name).is_none());
        let catalog = Catalog::embedded()?;
        let policies = Policies::load(&catalog, &[])?;
        let resolver = Resolver::new(http, &catalog, None, &policies);
        lock.images
            .extend(resolver.pull(images, &old.architectures).await?);
        lock.sort();
        Ok(lock)
    }
}

/// What was found in a chart or a manifest, and what becomes of it.
fn tell(gathered: &Gathered, old: &Lock, added: &BTreeSet<ImageRef>) {
    say!("{}", gathered.own.describe());
    if let Some(doubt) = &gathered.doubt {
        say!("  {doubt}");
    }
    let becomes = |found: &Found| match &found.image {
        Ok(image) if old.image(image).is_some() => "in the bundle",
        Ok(image) if added.contains(image) => "added",
        Ok(_) if found.is_sure => "left out",
        Ok(_) => "a guess, left out; --image adds it",
        Err(_) => "not taken; decide, and add it by --image",
    };
    for found in &gathered.found {
        say!("  {found}: {}", becomes(found));
    }
}

/// In place of what has the same name.
fn put(lock: &mut Lock, own: LockedArtifact) {
    let same =
        |other: &LockedArtifact| other.kind == own.kind && other.file_name() == own.file_name();
    lock.own.retain(|other| !same(other));
    lock.own.push(own);
}

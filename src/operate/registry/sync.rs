//! `registry sync`: gives each registry what the others have.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use super::catalog::{Catalog, Registry};
use super::change::{Change, ChangeReport, Prepared, bytes, count, open};
use super::image::Image;
use super::space;
use kubexm_config::Cluster;
use kubexm_engine::plan::{Plan, TaskName};
use kubexm_engine::seed::{RegistryBlobs, RegistryContent, StoreImages};
use kubexm_host::Facts;
use kubexm_session::begun::Operation;
use kubexm_session::{CommandError, Connection, Stop};
use kubexm_types::event::Events;
use kubexm_types::{Digest, HostName};

/// Sends images to a registry.
pub(super) const IMAGES: TaskName = TaskName::new("registry", "images");

/// Which registries to make equal.
#[derive(Debug, Clone)]
pub struct SyncOptions {
    /// The cluster file.
    pub cluster: PathBuf,
    /// How to reach the hosts.
    pub connection: Connection,
    /// The host whose registry decides where a tag means different images.
    pub from: Option<HostName>,
    /// Whether to end after the plan.
    pub dry_run: bool,
}

/// Gives each registry of a cluster the images that the others have. Blobs go from host to host through this machine.
///
/// # Errors
/// A tag means different images, no registry has all blobs of an image (after the others were copied), hosts cannot be reached, or a step failed.
#[tracing::instrument(skip_all, fields(cluster = %options.cluster.display()))]
pub async fn sync(
    options: &SyncOptions,
    events: &Events,
    stop: &Stop,
) -> Result<ChangeReport, CommandError> {
    let (cluster, state) = open(&options.cluster, &options.connection, events)?;
    let change = Change {
        cluster: &cluster,
        state: &state,
        connection: &options.connection,
        operation: Operation::RegistrySync,
        lock: String::new(),
        dry_run: options.dry_run,
    };
    let prepare = async |site: &mut super::site::Site<'_>, events: &Events| {
        let catalog = Catalog::read(site.cluster, &site.hosts).await?;
        prepared(
            site.cluster,
            &catalog,
            &site.facts,
            options.from.as_ref(),
            events,
        )
    };
    change.run(prepare, async || true, events, stop).await
}

pub(super) fn prepared(
    cluster: &Cluster,
    catalog: &Catalog,
    facts: &BTreeMap<HostName, Facts>,
    from: Option<&HostName>,
    events: &Events,
) -> Result<Prepared, CommandError> {
    let deciding = from.map(|name| registry(catalog, name)).transpose()?;
    let images = chosen(catalog, deciding)?;
    catalog.warn_of_tags(cluster, events);
    let (wanted, lost) = complete(catalog, &images, deciding);
    let mut content = RegistryContent::empty();
    for (_, own) in &wanted {
        content.extend(own.clone());
    }
    let source = Arc::new(source(cluster, catalog, &content));
    let mut text = String::new();
    let mut plan = Plan::default();
    let mut sizes = BTreeMap::new();
    for registry in &catalog.registries {
        let missing = content.missing_in(&registry.storage);
        if missing.is_empty() {
            continue;
        }
        sizes.insert(registry.name.clone(), missing.bytes());
        let lacking = wanted
            .iter()
            .filter(|(_, own)| !own.missing_in(&registry.storage).is_empty());
        let names: Vec<String> = lacking.map(|(image, _)| image.name()).collect();
        let title = format!(
            "Copy {}, {}, from other registries",
            count(missing.blobs(), "blob"),
            bytes(missing.bytes())
        );
        let _ = writeln!(text, "  {}\n    - {title}", registry.name);
        for name in names {
            let _ = writeln!(text, "      {name}");
        }
        plan.tasks
            .push(IMAGES.task(&registry.name).step(StoreImages {
                id: "registry images".to_owned(),
                title,
                content: content.clone(),
                data_dir: cluster.registry.data_dir.clone(),
                blobs: Arc::clone(&source) as _,
            }));
    }
    space::check(&cluster.registry.data_dir, facts, &sizes)?;
    if !text.is_empty() {
        text = format!(
            "registries of the cluster '{}' that become equal:\n{text}",
            cluster.name
        );
    }
    Ok(Prepared {
        text,
        plan,
        afterwards: "run the same command again when they answer",
        remaining: incomplete(&lost),
    })
}

/// Returns the images that all registries get.
///
/// # Errors
/// A tag means different images, and no registry decides which one is right.
fn chosen(catalog: &Catalog, deciding: Option<&Registry>) -> Result<Vec<Image>, CommandError> {
    let decided = |image: &Image| catalog.digest_in(image, deciding?);
    let mut images = catalog.images();
    let all = images.iter().cloned().chain(catalog.tags_of_manifests());
    let open = all.filter(|image| decided(image).is_none());
    let different: Vec<String> = open
        .filter_map(|image| differences(catalog, &image))
        .collect();
    for image in &mut images {
        image.digest = decided(image).unwrap_or(image.digest);
    }
    if different.is_empty() {
        return Ok(images);
    }
    Err(CommandError::refused(format!(
        "these names mean different images in the registries:\n{}",
        different.join("\n")
    ))
    .hint("kubexm registry sync --from HOST makes them equal to the registry of this host"))
}

/// Returns what an image is in each registry, if they differ.
fn differences(catalog: &Catalog, image: &Image) -> Option<String> {
    let registries = catalog.registries.iter();
    let digests: BTreeMap<Digest, &HostName> = registries
        .filter_map(|registry| Some((catalog.digest_in(image, registry)?, &registry.name)))
        .collect();
    let of: Vec<String> = digests
        .iter()
        .map(|(digest, host)| format!("{digest} on {host}"))
        .collect();
    (of.len() > 1).then(|| format!("  {}: {}", image.name(), of.join(", ")))
}

/// Returns what all registries have if they are equal.
///
/// # Errors
/// They differ.
pub(super) fn equal_content(catalog: &Catalog) -> Result<RegistryContent, CommandError> {
    let images = chosen(catalog, None)?;
    let (wanted, lost) = complete(catalog, &images, None);
    if let Some(error) = incomplete(&lost) {
        return Err(error);
    }
    let mut content = RegistryContent::empty();
    for (_, own) in wanted {
        content.extend(own);
    }
    Ok(content)
}

fn registry<'a>(catalog: &'a Catalog, name: &HostName) -> Result<&'a Registry, CommandError> {
    let mut registries = catalog.registries.iter();
    let found = registries.find(|registry| registry.name == *name);
    found.ok_or_else(|| {
        let names = catalog.registries.iter();
        let names: Vec<&str> = names.map(|registry| registry.name.as_str()).collect();
        CommandError::configuration(format!("'{name}' has no registry that can be read"))
            .hint(format!("these have one: {}", names.join(", ")))
    })
}

/// Returns the error of images of which no registry has every blob, with the numbers of their lost blobs; `None` for none.
fn incomplete(lost: &[(String, usize)]) -> Option<CommandError> {
    let lines = lost.iter();
    let lines: Vec<String> = lines
        .map(|(name, blobs)| format!("  {name}: {} lost", count(*blobs, "blob")))
        .collect();
    (!lines.is_empty()).then(|| {
        let text = format!(
            "no registry has all blobs of these images:\n{}",
            lines.join("\n")
        );
        CommandError::refused(text).hint(
            "kubexm registry add -f CLUSTER --bundle BUNDLE adds them again from a bundle that contains them; kubexm registry remove \
             removes them",
        )
    })
}

/// An image with its blobs and manifests.
type WithContent<'a> = (&'a Image, RegistryContent);

/// Separates the images of which registries together have every blob from the others, with the numbers of their blobs that
/// are lost.
fn complete<'a>(
    catalog: &Catalog,
    images: &'a [Image],
    deciding: Option<&Registry>,
) -> (Vec<WithContent<'a>>, Vec<(String, usize)>) {
    let (mut found, mut lost) = (Vec::new(), Vec::new());
    for image in images {
        let content = catalog.content_by(image, deciding);
        let is_lost = |(digest, size): &(&Digest, &u64)| {
            let mut registries = catalog.registries.iter();
            !registries.any(|registry| registry.storage.blobs.get(*digest) == Some(*size))
        };
        match content.blobs().iter().filter(is_lost).count() {
            0 => found.push((image, content)),
            count => lost.push((image.name(), count)),
        }
    }
    (found, lost)
}

/// Returns the registries as a source of these blobs: each one with the blobs that have the right size.
pub(super) fn source(
    cluster: &Cluster,
    catalog: &Catalog,
    content: &RegistryContent,
) -> RegistryBlobs {
    let sources = catalog.registries.iter().map(|registry| {
        let mut storage = registry.storage.clone();
        storage
            .blobs
            .retain(|digest, size| content.blobs().get(digest) == Some(size));
        (Arc::clone(&registry.host), storage)
    });
    RegistryBlobs::new(sources.collect(), cluster.registry.data_dir.clone())
}

/// Returns names without duplicates.
pub(super) fn distinct(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let names: BTreeSet<String> = names.into_iter().collect();
    names.into_iter().collect()
}

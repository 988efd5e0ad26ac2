//! `registry remove`: removes the names of images from the registries of a running cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;

use super::catalog::{Catalog, revision, tag_directory};
use super::change::{Change, ChangeReport, Prepared, open};
use super::image::Image;
use super::site::Site;
use super::sync::distinct;
use super::uses::Uses;
use kubexm_config::Cluster;
use kubexm_engine::plan::{Plan, TaskName};
use kubexm_engine::seed::RemoveImages;
use kubexm_session::begun::Operation;
use kubexm_session::{CommandError, Connection, Stop};
use kubexm_types::event::Events;
use kubexm_types::{Digest, ImageRef, WarningKind};

/// Removes images of a registry.
pub(super) const REMOVE: TaskName = TaskName::new("registry", "remove");

/// Which images to remove.
#[derive(Debug, Clone)]
pub struct RemoveOptions {
    /// The cluster file.
    pub cluster: PathBuf,
    /// How to reach the hosts.
    pub connection: Connection,
    /// The images.
    pub images: Vec<ImageRef>,
    /// Whether to remove images that are in use, or of which this is not known.
    pub force: bool,
    /// Whether to end after the plan.
    pub dry_run: bool,
}

/// Removes tags and manifests from all registries of a cluster. Blobs stay until `gc`.
///
/// # Errors
/// An image does not exist or is in use, a registry cannot be reached, or a step failed.
#[tracing::instrument(skip_all, fields(cluster = %options.cluster.display()))]
pub async fn remove(
    options: &RemoveOptions,
    events: &Events,
    stop: &Stop,
) -> Result<ChangeReport, CommandError> {
    let (cluster, state) = open(&options.cluster, &options.connection, events)?;
    let change = Change {
        cluster: &cluster,
        state: &state,
        connection: &options.connection,
        operation: Operation::RegistryRemove,
        lock: String::new(),
        dry_run: options.dry_run,
    };
    let prepare = async |site: &mut Site<'_>, events: &Events| {
        site.needs_all(
            "an image that stays on one registry would return to the others with kubexm registry sync: start this host first",
        )?;
        let (catalog, uses) =
            tokio::join!(Catalog::read(site.cluster, &site.hosts), Uses::read(site));
        let catalog = catalog?;
        catalog.warn_of_tags(site.cluster, events);
        let images = named(&catalog, &options.images)?;
        let problems = in_use(&catalog, &uses, &images);
        match (problems.is_empty(), options.force) {
            (true, _) => {}
            (false, true) => problems
                .iter()
                .for_each(|problem| events.warn(WarningKind::StillNeeded, problem.as_str())),
            (false, false) => {
                return Err(CommandError::refused(format!(
                    "cannot remove images that are in use; nothing was touched\n  {}",
                    problems.join("\n  ")
                ))
                .hint(
                    "end what uses them first, or remove them nevertheless with --force: pods \
                     then start only where a node has the image",
                ));
            }
        }
        let mut text = String::new();
        let plan = plan(site.cluster, &catalog, &images, &mut text);
        if !text.is_empty() {
            text = format!(
                "images that are removed from the registries of the cluster '{}':\n{text}the blobs stay until kubexm registry gc\n\
                 way back: kubexm registry add, from a bundle that has the images",
                site.cluster.name
            );
        }
        Ok(Prepared {
            text,
            plan,
            afterwards: "run the same command again",
            remaining: None,
        })
    };
    change.run(prepare, async || true, events, stop).await
}

/// Returns the images with these names.
///
/// # Errors
/// No registry has one of them.
fn named(catalog: &Catalog, names: &[ImageRef]) -> Result<Vec<Image>, CommandError> {
    let all = catalog.images();
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for name in names {
        let before = found.len();
        found.extend(all.iter().filter(|image| image.is_named(name)).cloned());
        if found.len() == before {
            missing.push(name.to_string());
        }
    }
    if missing.is_empty() {
        return Ok(found);
    }
    Err(CommandError::configuration(format!(
        "no registry of the cluster has {}; nothing was touched",
        missing.join(", ")
    ))
    .hint("`kubexm registry list` prints the names of all images"))
}

/// Returns a line for each image that is in use.
fn in_use(catalog: &Catalog, uses: &Uses, images: &[Image]) -> Vec<String> {
    let mut lines = Vec::new();
    for image in images {
        let by = uses.of(catalog, image);
        if !by.is_empty() {
            lines.push(format!("{}: {}", image.name(), some(&by)));
        }
    }
    if let Some(cause) = &uses.unknown {
        lines.push(format!(
            "it is not known which images the cluster uses: {cause}"
        ));
    }
    lines
}

/// Joins the first three of these texts.
pub(super) fn some(texts: &[String]) -> String {
    match texts {
        [first, second, third, _, rest @ ..] => {
            format!("{first}, {second}, {third} and {} more", rest.len() + 1)
        }
        _ => texts.join(", "),
    }
}

/// Plans the removal of images on all registries. Adds a line for each image to the text.
pub(super) fn plan(
    cluster: &Cluster,
    catalog: &Catalog,
    images: &[Image],
    text: &mut String,
) -> Plan {
    let all = catalog.images();
    let mut plan = Plan::default();
    for registry in &catalog.registries {
        let mut paths = Vec::new();
        let mut names = Vec::new();
        let mut former = Vec::new();
        for repository in distinct(images.iter().map(|image| image.repository.clone())) {
            let of_repository = |image: &&Image| image.repository == repository;
            let leaving: Vec<&Image> = images.iter().filter(of_repository).collect();
            let staying = all.iter().filter(of_repository);
            let staying = staying.filter(|image| !leaving.contains(image));
            let kept = manifests(catalog, staying);
            let gone = manifests(catalog, leaving.iter().copied());
            let gone: BTreeSet<Digest> = gone.difference(&kept).copied().collect();
            let own = &registry.storage.links;
            let has = |directory: &str| {
                let below = format!("{directory}/");
                let mut links = own.range(below.clone()..);
                links
                    .next()
                    .is_some_and(|(path, _)| path.starts_with(&below))
            };
            let mut tags = Vec::new();
            former.extend(of_former(own, &repository, &gone));
            for digest in &gone {
                paths.push(revision(&repository, &digest.hex()));
                let own = catalog.tags_of_manifest(&repository, *digest).into_iter();
                tags.extend(own.map(|tag| tag_directory(&repository, tag)));
            }
            for image in leaving {
                names.push(image.name());
                tags.extend(
                    image
                        .tag
                        .as_ref()
                        .map(|tag| tag_directory(&repository, tag)),
                );
            }
            paths.extend(distinct(tags));
            paths.retain(|path| has(path));
        }
        if paths.is_empty() {
            continue;
        }
        let title = format!("Remove {} tags and manifests", paths.len());
        paths.extend(former);
        let _ = writeln!(text, "  {}\n    - {title}", registry.name);
        for name in names {
            let _ = writeln!(text, "      {name}");
        }
        plan.tasks
            .push(REMOVE.task(&registry.name).step(RemoveImages {
                title,
                data_dir: cluster.registry.data_dir.clone(),
                paths,
            }));
    }
    plan
}

/// Returns the directories in which tags still name these manifests, although they name others now. A tag keeps the digest of
/// each manifest that it ever named.
fn of_former(
    links: &BTreeMap<String, Digest>,
    repository: &str,
    gone: &BTreeSet<Digest>,
) -> Vec<String> {
    let tags = tag_directory(repository, "");
    let below = links.range(tags.clone()..).map(|(path, _)| path);
    let below = below.take_while(|path| path.starts_with(&tags));
    let directories = below.filter_map(|path| path.strip_suffix("/link"));
    let of_gone = directories.filter(|directory| {
        let index = directory.rsplit_once("/index/sha256/");
        index.is_some_and(|(_, hex)| gone.iter().any(|digest| digest.hex() == hex))
    });
    of_gone.map(str::to_owned).collect()
}

/// Returns the manifests of images, in all versions that their tags have.
fn manifests<'a>(catalog: &Catalog, images: impl Iterator<Item = &'a Image>) -> BTreeSet<Digest> {
    images.flat_map(|image| catalog.versions(image)).collect()
}

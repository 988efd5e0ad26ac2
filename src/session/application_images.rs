//! Images that the applications of a cluster file need with its values, and that nodes could not pull.

use std::fmt;
use std::sync::Arc;

use crate::CommandError;
use crate::program_settings::Programs;
use crate::session::Hosts;
use kubexm_bundle::BundleSet;
use kubexm_config::Cluster;
use kubexm_deploy::{ApplicationParts, application_parts};
use kubexm_engine::seed::{self, Storage};
use kubexm_fetch::FetchError;
use kubexm_fetch::artifacts::{Helm, images_of_chart};
use kubexm_preflight::{Finding, registry_checks};
use kubexm_sandbox::SandboxError;
use kubexm_types::event::Events;
use kubexm_types::{FindingKind, ImageRef, Message, ReleaseName, WarningKind};

/// What to do about an image that nodes could not pull.
pub const HINT: &str = "build the bundle with `--cluster` and this cluster file, or name the image in spec.images of its manifest; \
     `kubexm bundle add --image` adds it to the bundle";

/// An image that an application needs, and that neither the bundle nor the registry has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingImage {
    application: ReleaseName,
    image: ImageRef,
    /// The object and its field.
    place: Option<String>,
}

impl fmt::Display for MissingImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            application, image, ..
        } = self;
        let place = self.place.as_ref().map(|place| format!(" ({place})"));
        write!(
            f,
            "the application {application} needs the image {image}{}, which neither the bundle nor the registry has",
            place.unwrap_or_default()
        )
    }
}

/// As [`missing`], as findings of preflight. They name a host, although they are about the cluster file.
///
/// # Errors
/// As [`missing`].
pub async fn findings(
    bundle: &Arc<BundleSet>,
    cluster: &Cluster,
    hosts: &Hosts,
    events: &Events,
) -> Result<Vec<Finding>, CommandError> {
    let missing = missing(&Programs::of(bundle), cluster, hosts, events).await?;
    let first = cluster.roles.control_plane.first();
    let findings = first.map(|first| {
        let missing = missing.iter();
        let finding = |image: &MissingImage| {
            Finding::new(FindingKind::Registry, first, true, image.to_string(), HINT)
        };
        missing.map(finding).collect()
    });
    Ok(findings.unwrap_or_default())
}

/// Renders the charts of applications with their values, by the helm of the bundle in a sandbox of this machine, and returns the
/// images that nodes could not pull. Warns if a chart is not rendered.
///
/// # Errors
/// The bundle, or a file with values, cannot be read, or the host of a registry was lost.
pub async fn missing(
    programs: &Programs<'_>,
    cluster: &Cluster,
    hosts: &Hosts,
    events: &Events,
) -> Result<Vec<MissingImage>, CommandError> {
    let lock = programs.lock;
    let parts = application_parts(cluster, lock)?;
    let has_charts = parts.iter().any(|part| part.values.is_some());
    let helm = has_charts
        .then(|| Helm::unpack(programs.blobs.as_ref(), &lock.files))
        .transpose()?
        .flatten();
    let mut absent = Vec::new();
    for part in &parts {
        let needed = needed(part, (programs, helm.as_ref()), cluster, events);
        let needed = needed.await?.into_iter();
        absent.extend(needed.filter(|one| lock.image(&one.image).is_none()));
    }
    // Runtimes pull images of these registries from servers that kubexm does not know.
    let others = &cluster.runtime.registries;
    absent.retain(|one| {
        others
            .iter()
            .all(|other| other.name != one.image.registry())
    });
    without_those_of_registry(absent, cluster, hosts).await
}

/// Returns the images that an application certainly needs.
async fn needed(
    part: &ApplicationParts<'_>,
    (programs, helm): (&Programs<'_>, Option<&Helm>),
    cluster: &Cluster,
    events: &Events,
) -> Result<Vec<MissingImage>, CommandError> {
    let of = |image: ImageRef, place: Option<String>| MissingImage {
        application: part.name.clone(),
        image,
        place,
    };
    let not_checked = |reason: &dyn fmt::Display| {
        let text = format!(
            "the images of the application {} are not checked: {reason}",
            part.name
        );
        events.warn(WarningKind::NotChecked, Message::new(text));
        Ok(Vec::new())
    };
    let (Some(values), [chart]) = (&part.values, part.artifacts.as_slice()) else {
        let images = part.artifacts.iter().flat_map(|artifact| &artifact.images);
        return Ok(images.map(|image| of(image.clone(), None)).collect());
    };
    let Some(helm) = helm else {
        return not_checked(&"the bundle has no helm for this machine");
    };
    let from = (programs.blobs.as_ref(), &chart.digest, helm);
    let paths = programs.lock.image_paths.as_slice();
    let with = (&cluster.kubernetes.version, paths);
    match images_of_chart(from, &values.to_string(), with, &programs.sandbox).await {
        Ok(Ok(found)) => {
            let images = found.into_iter();
            let images = images.filter_map(|found| Some((found.image.ok()?, found.place)));
            Ok(images
                .map(|(image, place)| of(image, Some(place)))
                .collect())
        }
        Ok(Err(reason)) => not_checked(&part.hidden()?.text(&reason)),
        Err(FetchError::Program {
            source: SandboxError::Unavailable(why),
            ..
        }) => not_checked(&format!("this machine cannot isolate programs: {why}")),
        Err(error) => Err(error.into()),
    }
}

/// Returns the images that the registry of the cluster, or that of the site, does not have.
async fn without_those_of_registry(
    mut absent: Vec<MissingImage>,
    cluster: &Cluster,
    hosts: &Hosts,
) -> Result<Vec<MissingImage>, CommandError> {
    if absent.is_empty() {
        return Ok(absent);
    }
    if cluster.registry.external.is_some() {
        let mut left = Vec::new();
        for one in absent {
            let asked = [(one.image.clone(), seed::repository(&one.image))];
            if !registry_checks::check(cluster, hosts, &asked)
                .await
                .is_empty()
            {
                left.push(one);
            }
        }
        return Ok(left);
    }
    let registries = cluster.roles.registry.iter();
    for host in registries.filter_map(|name| hosts.get(name)) {
        let storage = Storage::read(host.as_ref(), &cluster.registry.data_dir).await;
        let storage = storage.map_err(kubexm_engine::plan::StepError::from)?;
        let repositories = storage.repositories();
        absent.retain(|one| {
            let repository = repositories.get(&seed::repository(&one.image));
            let has = |repository: &seed::Repository| match one.image.digest() {
                Some(digest) => repository.manifests.contains(&digest),
                None => one
                    .image
                    .tag()
                    .is_some_and(|tag| repository.tags.contains_key(tag)),
            };
            !repository.is_some_and(has)
        });
    }
    Ok(absent)
}

#[cfg(test)]
pub(crate) mod tests;

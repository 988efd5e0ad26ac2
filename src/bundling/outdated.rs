//! `bundle outdated`: which content of a bundle has newer releases.

use std::path::Path;

use futures_util::stream::{self, StreamExt};
use serde::Serialize;

use crate::lock_file;
use kubexm_bundle::Lock;
use kubexm_catalog::Catalog;
use kubexm_fetch::oci::Puller;
use kubexm_fetch::releases::{Newest, newest};
use kubexm_fetch::{FetchError, Http};
use kubexm_session::CommandError;
use kubexm_session::downloads::DownloadOptions;
use kubexm_types::event::Events;
use kubexm_types::{Digest, Version};

/// The number of requests that run at the same time.
const PARALLEL: usize = 8;

/// Newer releases of a bundle's content.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outdated {
    /// Components with newer releases.
    pub components: Vec<OutdatedComponent>,
    /// Images whose tag names another image now.
    pub images: Vec<MovedTag>,
    /// Questions that no server answered, one error for each site. The lists above contain the other
    /// answers.
    #[serde(serialize_with = "messages")]
    pub errors: Vec<FetchError>,
}

/// A component with a newer release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutdatedComponent {
    /// The name in the catalog.
    pub name: String,
    /// The version in the bundle.
    pub version: String,
    /// The newest version with the same major and minor number, if it is newer.
    pub newest_patch: Option<String>,
    /// The newest version, if it is newer.
    pub newest: Option<String>,
}

/// An image whose tag moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MovedTag {
    /// The full name.
    pub name: String,
    /// The digest in the bundle.
    pub digest: Digest,
    /// The digest that the tag names now.
    pub now: Digest,
}

impl Outdated {
    /// Returns whether no newer release was found.
    pub fn is_empty(&self) -> bool {
        self.components.is_empty() && self.images.is_empty()
    }

    /// Returns the results without the errors.
    ///
    /// # Errors
    /// Some questions were not answered; the error lists them all.
    pub fn check(&mut self) -> Result<(), CommandError> {
        Ok(FetchError::all(std::mem::take(&mut self.errors))?)
    }
}

/// Asks for the releases of every component, and which image every tag names now.
///
/// # Errors
/// The lock, the mirrors or the cache cannot be read.
#[tracing::instrument(skip_all, fields(bundle = %bundle.display()))]
pub async fn outdated(
    bundle: &Path,
    downloads: &DownloadOptions,
    events: &Events,
) -> Result<Outdated, CommandError> {
    let lock = lock_file::of_bundle_or_file(bundle)?;
    let catalog = Catalog::embedded()?;
    let http = downloads.http(events)?;
    let mut outdated = Outdated::default();
    components(&lock, &catalog, &http, &mut outdated).await;
    images(&lock, &Puller::new(http), &mut outdated).await;
    outdated.errors = FetchError::grouped_by_site(outdated.errors);
    Ok(outdated)
}

async fn components(lock: &Lock, catalog: &Catalog, http: &Http, outdated: &mut Outdated) {
    let mut versions: Vec<(&str, &Version)> = lock
        .files
        .iter()
        .map(|file| (file.component.as_str(), &file.version))
        .collect();
    versions.sort();
    versions.dedup();
    let known = versions.iter().filter_map(|(name, version)| {
        let releases = catalog.releases(name)?;
        Some((*name, *version, releases))
    });
    let answers: Vec<_> = stream::iter(known)
        .map(|(name, version, releases)| async move {
            (name, version, newest(http, name, releases, version).await)
        })
        .buffered(PARALLEL)
        .collect()
        .await;
    for (name, version, answer) in answers {
        match answer {
            Ok(found) => outdated.components.extend(newer(name, version, &found)),
            Err(error) => outdated.errors.push(error),
        }
    }
}

async fn images(lock: &Lock, puller: &Puller, outdated: &mut Outdated) {
    let answers: Vec<_> = stream::iter(&lock.images)
        .map(|image| {
            let arches: Vec<_> = image.arches().collect();
            async move {
                let found = if image.is_artifact() {
                    puller.resolve_artifact(&image.name, None).await
                } else {
                    puller.resolve(&image.name, &arches, None).await
                };
                (image, found)
            }
        })
        .buffered(PARALLEL)
        .collect()
        .await;
    for (image, answer) in answers {
        match answer {
            Ok(found) if found.manifest.digest != image.manifest.digest => {
                outdated.images.push(MovedTag {
                    name: image.name.to_string(),
                    digest: image.manifest.digest,
                    now: found.manifest.digest,
                });
            }
            Ok(_) => {}
            Err(error) => outdated.errors.push(error),
        }
    }
}

fn newer(name: &str, current: &Version, newest: &Newest) -> Option<OutdatedComponent> {
    let patch = newest.of_minor.as_ref().filter(|patch| *patch > current);
    let all = Some(&newest.of_all).filter(|all| *all > current);
    (patch.is_some() || all.is_some()).then(|| OutdatedComponent {
        name: name.to_owned(),
        version: current.to_string(),
        newest_patch: patch.map(ToString::to_string),
        newest: all.map(ToString::to_string),
    })
}

fn messages<S: serde::Serializer>(errors: &[FetchError], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(errors.iter().map(ToString::to_string))
}

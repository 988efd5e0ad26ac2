//! `kubexm bundle outdated`: what has newer releases than the bundle.

use std::path::PathBuf;

use clap::Args;
use futures_util::stream::{self, StreamExt};

use super::Failure;
use super::bundle::any_lock;
use super::downloads::Downloads;
use super::out::say;
use kubexm_bundle::lock::LockedImage;
use kubexm_catalog::Catalog;
use kubexm_fetch::FetchError;
use kubexm_fetch::oci::Puller;
use kubexm_fetch::releases::{Newest, newest};
use kubexm_types::Version;
use kubexm_types::event::Events;

/// Questions that are asked at once.
const PARALLEL: usize = 8;

#[derive(Debug, Args)]
pub struct Outdated {
    /// A bundle, or the lock of one (.yaml)
    bundle: PathBuf,
    #[command(flatten)]
    downloads: Downloads,
}

/// Asks for releases of every component, and whether the images' tags still name the same.
pub async fn run(arguments: &Outdated, events: &Events) -> Result<(), Failure> {
    let lock = any_lock(&arguments.bundle)?;
    let catalog = Catalog::embedded()?;
    let http = arguments.downloads.http(events)?;
    let puller = Puller::new(http.clone())?;

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
    let components: Vec<_> = stream::iter(known)
        .map(|(name, version, releases)| {
            let http = &http;
            async move { (name, version, newest(http, name, releases, version).await) }
        })
        .buffered(PARALLEL)
        .collect()
        .await;
    let images: Vec<_> = stream::iter(&lock.images)
        .map(|image| {
            let arches: Vec<_> = image.platforms.iter().map(|p| p.arch).collect();
            let puller = &puller;
            async move { (image, puller.resolve(&image.name, &arches, None).await) }
        })
        .buffered(PARALLEL)
        .collect()
        .await;

    let mut errors = Vec::new();
    let mut count = 0;
    for (name, version, found) in components {
        match found.map(|found| words(version, &found)) {
            Ok(Some(words)) => {
                say!("{name} {version}: {words}");
                count += 1;
            }
            Ok(None) => {}
            Err(error) => errors.push(error),
        }
    }
    for (image, found) in images {
        match found {
            Ok(found) if found.manifest.digest != image.manifest.digest => {
                say!("{}: {}", image.name, moved(&found));
                count += 1;
            }
            Ok(_) => {}
            Err(error) => errors.push(error),
        }
    }
    FetchError::all(errors)?;
    if count == 0 {
        say!("nothing has a newer release");
    }
    Ok(())
}

fn words(current: &Version, newest: &Newest) -> Option<String> {
    let of_minor = newest.of_minor.as_ref().filter(|minor| *minor > current);
    let of_all = Some(&newest.of_all).filter(|all| *all > current);
    match (of_minor, of_all) {
        (Some(minor), Some(all)) if minor != all => Some(format!("{minor}, and {all}")),
        (_, Some(newer)) | (Some(newer), None) => Some(newer.to_string()),
        (None, None) => None,
    }
}

fn moved(now: &LockedImage) -> String {
    format!(
        "its tag names another image now ({})",
        &now.manifest.digest.hex()[..12]
    )
}

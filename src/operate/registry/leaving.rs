//! Which images a cluster loses if hosts with registries leave it.

use std::collections::BTreeSet;

use super::catalog::{Catalog, Registry};
use super::image::Image;
use kubexm_config::Cluster;
use kubexm_session::CommandError;
use kubexm_session::session::Hosts;
use kubexm_types::HostName;

/// Returns the names of the images that only registries of these hosts have.
///
/// # Errors
/// A registry cannot be read.
pub async fn only_on(
    cluster: &Cluster,
    hosts: &Hosts,
    leaving: &BTreeSet<HostName>,
) -> Result<Vec<String>, CommandError> {
    let catalog = Catalog::read(cluster, hosts).await?;
    Ok(missing_without(&catalog, leaving))
}

fn missing_without(catalog: &Catalog, leaving: &BTreeSet<HostName>) -> Vec<String> {
    let stays = |registry: &&Registry| !leaving.contains(&registry.name);
    let images = catalog.images().into_iter();
    let images = images.filter(|image| {
        let mut staying = catalog.registries.iter().filter(stays);
        !staying.any(|registry| has(catalog, registry, image))
    });
    images.map(|image| image.name()).collect()
}

/// Whether a registry has an image with all of its blobs.
fn has(catalog: &Catalog, registry: &Registry, image: &Image) -> bool {
    let blobs = &registry.storage.blobs;
    let content = catalog.content(image);
    let mut wanted = content.blobs().iter();
    catalog.digest_in(image, registry) == Some(image.digest)
        && wanted.all(|(digest, size)| blobs.get(digest) == Some(size))
}

//! Exports images for other tools, as an OCI image layout or as an archive for `docker load`. Reads the
//! bundle once. Only a complete export gets its final name.

mod docker;
mod layout;
mod target;

use std::collections::BTreeMap;
use std::path::Path;

pub use docker::docker_archive;
pub use layout::oci_layout;

use super::lock::{Lock, LockedImage, PlatformManifest};
use super::{Bundle, BundleError};
use kubexm_types::event::Events;
use kubexm_types::{Arch, Digest, ImageRef, Message};

/// The content of an export.
struct Content {
    /// Small documents, by their names in it.
    documents: Vec<(String, Vec<u8>)>,
    /// Blobs with their sizes in bytes; each becomes `blobs/sha256/<digest>`.
    blobs: BTreeMap<Digest, u64>,
}

/// Progress and cancellation of an export.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// Receives progress events.
    pub events: &'a Events,
    /// Called repeatedly. `true` stops the export and removes its files.
    pub stop: &'a dyn Fn() -> bool,
}

/// Returns the images with these names, or all images if there are no names.
///
/// # Errors
/// An image is missing; the error lists the images of the bundle.
pub fn choose<'a>(lock: &'a Lock, names: &[ImageRef]) -> Result<Vec<&'a LockedImage>, BundleError> {
    if names.is_empty() {
        return Ok(lock.images.iter().collect());
    }
    let find = |name: &ImageRef| {
        lock.image(name).ok_or_else(|| {
            let there: Vec<String> = lock.images.iter().map(|i| i.name.to_string()).collect();
            BundleError::Missing(format!("image {name}; it has\n  {}", there.join("\n  ")).into())
        })
    };
    let mut chosen = names.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    chosen.sort_by(|a, b| a.name.cmp(&b.name));
    chosen.dedup_by(|a, b| a.name == b.name);
    Ok(chosen)
}

/// Returns the images without the blobs of other architectures. Indexes stay as published, and artifacts that are not
/// images whole.
///
/// # Errors
/// An image does not have this architecture.
pub fn only_for(images: &[&LockedImage], arch: Arch) -> Result<Vec<LockedImage>, BundleError> {
    let only = |image: &&LockedImage| {
        if image.is_artifact() {
            return Ok((*image).clone());
        }
        Ok(LockedImage {
            platforms: vec![platform(image, arch)?.clone()],
            ..(*image).clone()
        })
    };
    images.iter().map(only).collect()
}

fn platform(image: &LockedImage, arch: Arch) -> Result<&PlatformManifest, BundleError> {
    if image.is_artifact() {
        return Err(BundleError::Missing(
            Message::new(format!(
                "an image {}, only another artifact of this name",
                image.name
            ))
            .hint("export it with --oci-layout"),
        ));
    }
    let mut platforms = image.platforms.iter();
    platforms.find(|p| p.arch == Some(arch)).ok_or_else(|| {
        let there: Vec<&str> = image.arches().map(|arch| arch.name()).collect();
        let there = there.join(", ");
        BundleError::Missing(
            Message::new(format!("image {} for {arch}, only for {there}", image.name))
                .hint("choose an architecture with --arch"),
        )
    })
}

/// Writes the content into a directory, or into a tar if the path ends in `.tar`.
fn write(path: &Path, content: &Content, bundle: &Bundle, run: Run<'_>) -> Result<(), BundleError> {
    if path.extension().is_some_and(|extension| extension == "tar") {
        target::tar(path, content, bundle, run)
    } else {
        target::folder(path, content, bundle, run)
    }
}

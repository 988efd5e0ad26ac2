//! Resolution of images: the list, their signatures and their blobs.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::stream::{self, StreamExt};

use super::stated::{only_by_signature, only_signed};
use super::{PARALLEL, Resolver, partition};
use crate::FetchError;
use crate::artifacts::images_in_yaml;
use crate::image_signatures::Found;
use crate::oci::{Parts, Puller};
use kubexm_bundle::lock::user_content::LockedArtifact;
use kubexm_bundle::lock::{ChecksumSource, Descriptor, KubeadmFacts, LockedFile, LockedImage};
use kubexm_config::manifest::Manifest;
use kubexm_types::{Arch, Digest, ImageRef, Message, ShownUrl, Version};

impl Resolver<'_> {
    /// Returns the images that the pods in a file's objects run.
    async fn images_in(&self, file: &LockedFile) -> Result<Vec<ImageRef>, FetchError> {
        let (cache, digest) = (self.http.cache().clone(), file.digest);
        let wrong = |reason: String| FetchError::Content {
            what: file.file_name.clone(),
            reason: Message::new(reason),
        };
        let read = tokio::task::spawn_blocking(move || cache.read(&digest));
        let bytes = read.await.map_err(|error| wrong(error.to_string()))??;
        let text = String::from_utf8(bytes).map_err(|error| wrong(error.to_string()))?;
        let read = images_in_yaml(&text, &file.file_name, &[]);
        if read.documents == 0 || read.unreadable > 0 {
            return Err(wrong(format!(
                "{} has no manifest at {}",
                file.component,
                ShownUrl::from(&file.url)
            )));
        }
        let images: Vec<_> = read.found.iter().filter_map(|found| found.sure()).collect();
        if !images.is_empty() {
            Ok(images)
        } else {
            Err(FetchError::Content {
                what: file.file_name.clone(),
                reason: Message::new(format!(
                    "the manifest at {} does not name an image",
                    ShownUrl::from(&file.url)
                ))
                .hint(format!(
                    "choose a release of {} whose pods have images",
                    file.component
                )),
            })
        }
    }

    /// Returns the images of a plugin, if the lock of an earlier build has them without the plugin's manifest.
    pub(super) fn former_images(
        &self,
        plugin: &str,
        version: &Version,
    ) -> Result<Vec<ImageRef>, FetchError> {
        let Some(previous) = self.previous else {
            return Ok(Vec::new());
        };
        let mut files = previous.files.iter();
        let has_manifest = files.any(|f| f.component == plugin && f.version == *version);
        let images = self.catalog.former_images(plugin, version)?;
        let is_former = !has_manifest && images.iter().all(|name| previous.image(name).is_some());
        Ok(if is_former { images } else { Vec::new() })
    }

    pub(super) async fn images(
        &self,
        manifest: &Manifest,
        tested: Vec<ImageRef>,
        kubeadm: &[KubeadmFacts],
        artifacts: &[LockedArtifact],
        plugins: &[LockedFile],
    ) -> Result<Vec<LockedImage>, FetchError> {
        let mut names: BTreeSet<ImageRef> = manifest.images.iter().cloned().collect();
        names.extend(tested);
        names.extend(
            kubeadm
                .iter()
                .flat_map(|facts| facts.images.iter().cloned()),
        );
        names.extend(
            artifacts
                .iter()
                .flat_map(|artifact| artifact.images.iter().cloned()),
        );
        for (name, version) in manifest.network.iter().chain(&manifest.load_balancer) {
            names.extend(self.catalog.images(name, version)?);
            names.extend(self.former_images(name, version)?);
        }
        for (component, versions) in &manifest.components {
            for version in versions {
                names.extend(self.catalog.images(component, version)?);
            }
        }
        for file in plugins {
            names.extend(self.images_in(file).await?);
        }
        let artifacts: BTreeSet<ImageRef> = manifest.oci_artifacts.iter().cloned().collect();
        if let Some(both) = names.intersection(&artifacts).next() {
            return Err(FetchError::Resolve(
                Message::new(format!(
                    "{both} is in spec.artifacts, and the bundle has it as an image"
                ))
                .hint("remove it from spec.artifacts: the registry of the cluster has images, too"),
            ));
        }
        self.pull(names, artifacts, &manifest.architectures).await
    }

    /// Resolves images for these architectures and artifacts that are not images, and fetches their blobs.
    ///
    /// # Errors
    /// An image or an artifact cannot be fetched.
    pub async fn pull(
        &self,
        images: BTreeSet<ImageRef>,
        artifacts: BTreeSet<ImageRef>,
        arches: &[Arch],
    ) -> Result<Vec<LockedImage>, FetchError> {
        let puller = Puller::new(self.http.clone());
        let images = images.into_iter().map(|name| (name, Parts::Of(arches)));
        let artifacts = artifacts.into_iter().map(|name| (name, Parts::All));
        let results: Vec<_> = stream::iter(images.chain(artifacts))
            .map(|(name, parts)| {
                let puller = &puller;
                async move { self.image(puller, &name, parts).await }
            })
            .buffer_unordered(PARALLEL)
            .collect()
            .await;
        let mut images = Vec::new();
        let mut unproven = BTreeMap::new();
        for (image, error) in partition(results)? {
            unproven.extend(error.map(|error| (image.name.clone(), error)));
            images.push(image);
        }
        let images = self.verify(&puller, images, unproven).await?;
        self.blobs(&puller, &images).await?;
        Ok(images)
    }

    /// Resolves an image. If its publisher cannot be asked and a signature can prove its content, it is resolved
    /// by a mirror and returned with the publisher's error.
    async fn image(
        &self,
        puller: &Puller,
        name: &ImageRef,
        parts: Parts<'_>,
    ) -> Result<(LockedImage, Option<FetchError>), FetchError> {
        if let Some(locked) = self.previous.and_then(|lock| lock.image(name)) {
            let pinned = Some(locked.manifest.digest);
            let image = puller.resolve_parts(name, parts, pinned).await?;
            let checksum = locked.checksum.clone();
            return Ok((LockedImage { checksum, ..image }, None));
        }
        match puller.resolve_parts(name, parts, None).await {
            Err(error @ FetchError::Publisher { .. })
                if self.policies.wanted_of_image(name).is_some() =>
            {
                match puller.resolve_unproven(name, parts).await {
                    Err(other) if !other.is_of_a_server() => Err(other),
                    Err(_) => Err(error),
                    Ok(image) => Ok((image, Some(error))),
                }
            }
            resolved => resolved.map(|image| (image, None)),
        }
    }

    /// Checks images against the signature policies, before any other content is fetched. Images in `unproven`
    /// need a signature; it contains the error to return without one.
    async fn verify(
        &self,
        puller: &Puller,
        images: Vec<LockedImage>,
        mut unproven: BTreeMap<ImageRef, FetchError>,
    ) -> Result<Vec<LockedImage>, FetchError> {
        let results: Vec<_> = stream::iter(images)
            .map(|image| async move {
                let previous = self.previous.and_then(|lock| lock.image(&image.name));
                let previous = previous.filter(|locked| locked.manifest == image.manifest);
                let previous = previous.and_then(|locked| locked.signature.as_ref());
                let found = self.policies.verify(puller, self.http, &image, previous);
                (found.await, image)
            })
            .buffer_unordered(PARALLEL)
            .collect()
            .await;
        let (mut images, mut unsigned, mut not_asked) = (Vec::new(), Vec::new(), Vec::new());
        let mut incomplete = BTreeMap::new();
        let mut errors = Vec::new();
        for (found, mut image) in results {
            let is_proven = image.checksum != Some(ChecksumSource::Signed);
            match (found, unproven.remove(&image.name)) {
                (Ok(Found::Signature(signature)), error) => {
                    if let Some(error) = error {
                        self.http.events().note(only_by_signature(
                            &image.name,
                            &signature.by,
                            "the signature does not name its tag",
                            &error,
                        ));
                    }
                    image.signature = Some(*signature);
                }
                (Ok(_) | Err(FetchError::Publisher { .. }), Some(error)) | (Err(error), _) => {
                    errors.push(error);
                }
                (Ok(_), None) if !is_proven => errors.push(only_signed(&image.name)),
                (Ok(Found::NotAsked), None) => not_asked.push(image.name.clone()),
                (Ok(Found::None), None) => unsigned.push(image.name.clone()),
                (Ok(Found::Incomplete(reason)), None) => {
                    unsigned.push(image.name.clone());
                    incomplete.insert(image.name.clone(), reason);
                }
            }
            images.push(image);
        }
        FetchError::all(errors)?;
        unsigned.sort();
        let all = [unsigned.as_slice(), not_asked.as_slice()].concat();
        let mirrors = self.http.mirrors();
        let mut allowed = self.policies.allow_unsigned(mirrors, &all, &incomplete)?;
        for image in &mut images {
            let is_locked = self
                .previous
                .is_some_and(|lock| lock.image(&image.name).is_some());
            let prefix = allowed.remove(&image.name);
            image.unsigned = prefix.filter(|_| self.records_unsigned(is_locked));
        }
        if !unsigned.is_empty() {
            let name = |image: &ImageRef| match incomplete.get(image) {
                Some(reason) => format!("{image}: {reason}"),
                None => image.to_string(),
            };
            let names: Vec<String> = unsigned.iter().map(name).collect();
            self.http.events().note(format!(
                "{} images have no signature of their publisher:\n  {}",
                names.len(),
                names.join("\n  ")
            ));
        }
        Ok(images)
    }

    /// Fetches the blobs of all images, each once, the largest first.
    async fn blobs(&self, puller: &Puller, images: &[LockedImage]) -> Result<(), FetchError> {
        let mut wanted: BTreeMap<Digest, (ImageRef, Descriptor)> = BTreeMap::new();
        for image in images {
            for blob in image.platforms.iter().flat_map(|platform| &platform.blobs) {
                wanted
                    .entry(blob.digest)
                    .or_insert_with(|| (image.name.clone(), blob.clone()));
            }
        }
        let mut wanted: Vec<_> = wanted.into_values().collect();
        wanted.sort_by_key(|(_, blob)| std::cmp::Reverse(blob.size));
        self.http.counter().expect(wanted.len());
        let results: Vec<_> = stream::iter(wanted)
            .map(|(name, blob)| async move {
                let fetched = puller.blob(&name, &blob).await;
                self.http.counter().advance();
                fetched
            })
            .buffer_unordered(PARALLEL)
            .collect()
            .await;
        partition(results).map(|_| ())
    }
}

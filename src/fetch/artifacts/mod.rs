//! Artifacts of the user: files, Helm charts and Kubernetes manifests, and the images that charts and
//! manifests run.

mod chart;
mod directory;
mod helm;
mod helmignore;
mod images;
mod known;
mod kustomize;
mod local_file;
mod plain;
mod renderers;
mod repository;
mod unpacked;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub use chart::Chart;
pub use directory::has_chart;
pub use helm::{COMPONENT as HELM, Content as ChartContent, Helm, Release, Rendered, Rendering};
pub use images::{Found, images_in_yaml};
pub use kustomize::{COMPONENT as KUBECTL, has_kustomization};
pub use renderers::Renderers;
use serde_json::Value;
use url::Url;

use crate::error::wrong;
use images::LARGEST_MANIFEST;
use kustomize::is_kustomization;
use local_file::copy_in;

use super::http::{StatedBy, Wanted};
use super::oci::Puller;
use super::{FetchError, Http};
use kubexm_bundle::Blobs;
use kubexm_bundle::lock::user_content::LockedArtifact;
use kubexm_bundle::lock::{ChecksumSource, Descriptor, Lock};
use kubexm_sandbox::Sandbox;
use kubexm_types::artifact::{ArtifactKind, ArtifactLocation, ArtifactSource};
use kubexm_types::{Digest, ImagePath, ImageRef, Message, ShownUrl, Version};

/// Media type of a chart's layer in a registry (<https://helm.sh/docs/topics/registries/>).
const CHART_TYPE: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// An artifact in the cache, and the images that were found in it.
#[derive(Debug, Clone)]
pub struct FetchedArtifact {
    /// The artifact's entry in the lock.
    pub artifact: LockedArtifact,
    /// Images, certain ones first.
    pub found: Vec<Found>,
    /// Why the list of images may be incomplete; a sentence.
    pub doubt: Option<String>,
}

/// Fetches artifacts of the user.
pub struct ArtifactFetcher<'a> {
    pub http: &'a Http,
    /// The lock of an earlier build: an address must return the same content again.
    pub previous: Option<&'a Lock>,
    /// The Kubernetes version for which charts are rendered.
    pub kubernetes: Option<&'a Version>,
    /// The programs that render charts and kustomizations.
    pub renderers: Renderers,
    /// Values of the applications of a cluster, as JSON, by the names of their charts. A chart has the images of each.
    pub values: &'a BTreeMap<String, Vec<String>>,
    /// The fields of custom resources that name images, as the user declares them.
    pub paths: &'a [ImagePath],
}

/// A file in the cache before it is examined.
struct Raw {
    digest: Digest,
    size: u64,
    checksum: ChecksumSource,
    url: Option<Url>,
    /// The name that its source gives it.
    name: String,
}

/// How the file of a kustomization begins, if it names its API version.
const KUSTOMIZATION: &str = "apiVersion: kustomize.config.k8s.io/";

impl ArtifactFetcher<'_> {
    /// Fetches one artifact into the cache and searches it for images.
    ///
    /// # Errors
    /// It cannot be fetched, its digest differs, or it is not of the expected type.
    pub async fn fetch(&self, source: &ArtifactSource) -> Result<FetchedArtifact, FetchError> {
        let raw = match &source.location {
            ArtifactLocation::Path(path)
                if source.kind == ArtifactKind::Chart && directory::has_chart(path) =>
            {
                self.packed(path, source.sha256).await?
            }
            ArtifactLocation::Path(path) if is_kustomization(source) => {
                self.rendered(path, source.sha256).await?
            }
            ArtifactLocation::Path(path) => self.on_disk(path, source.sha256).await?,
            ArtifactLocation::Address(url) => {
                let pinned = source.sha256.map(|digest| (digest, ChecksumSource::Pinned));
                self.at(url, pinned, None).await?
            }
            ArtifactLocation::Repository {
                url,
                chart,
                version,
            } => {
                let entry = repository::find(self.http, url, chart, version).await?;
                let stated = match (source.sha256, entry.digest) {
                    (Some(digest), _) => Some((digest, ChecksumSource::Pinned)),
                    (None, Some(digest)) => Some((digest, entry.index)),
                    (None, None) => None,
                };
                self.at(&entry.url, stated, Some(version)).await?
            }
        };
        self.look_into(source, raw).await
    }

    /// Returns the digest that an address returned in an earlier build, and its trust basis.
    fn seen(&self, url: &Url) -> Option<(Digest, ChecksumSource)> {
        let artifacts = self.previous.iter().flat_map(|lock| &lock.artifacts);
        let mut same = artifacts.filter(|artifact| artifact.url.as_ref() == Some(url));
        let seen = same.next()?;
        let checksum = match &seen.checksum {
            ChecksumSource::Mirror(url) => ChecksumSource::Mirror(url.clone()),
            ChecksumSource::NotRecorded => ChecksumSource::NotRecorded,
            // The digest is not in the manifest or in the index any more.
            _ => ChecksumSource::FirstSeen,
        };
        Some((seen.digest, checksum))
    }

    /// Fetches a file, or a chart from a registry. `version` is the chart's if an index named the address.
    async fn at(
        &self,
        url: &Url,
        stated: Option<(Digest, ChecksumSource)>,
        version: Option<&str>,
    ) -> Result<Raw, FetchError> {
        if url.scheme() == "oci" {
            self.in_registry(url, stated, version).await
        } else {
            self.at_address(url, stated.or_else(|| self.seen(url)))
                .await
        }
    }

    /// Fetches a file, whose digest was stated or is determined by the first download.
    async fn at_address(
        &self,
        url: &Url,
        stated: Option<(Digest, ChecksumSource)>,
    ) -> Result<Raw, FetchError> {
        let segment = url.path_segments().and_then(|mut parts| parts.next_back());
        let name = segment.unwrap_or_default().to_owned();
        let wanted = Wanted {
            label: name.clone(),
            url: url.clone(),
            expected: stated.as_ref().map(|(digest, _)| *digest),
            size: None,
        };
        let (digest, size, checksum) = match stated {
            Some((_, checksum)) => {
                let (digest, size) = self.http.download(&wanted).await?;
                (digest, size, checksum)
            }
            None => first_seen(self.http, &wanted).await?,
        };
        Ok(Raw {
            digest,
            size,
            checksum,
            url: Some(url.clone()),
            name,
        })
    }

    /// Fetches a chart from a registry: the only chart layer of a manifest.
    async fn in_registry(
        &self,
        url: &Url,
        stated: Option<(Digest, ChecksumSource)>,
        version: Option<&str>,
    ) -> Result<Raw, FetchError> {
        // A tag cannot have the `+` of a version (<https://helm.sh/docs/topics/registries/>).
        let tag = version.map(|version| version.replace('+', "_"));
        let place = ImageRef::parse_place(url.as_str(), tag.as_deref())
            .map_err(|error| FetchError::resolve(error.to_string()))?;
        let puller = Puller::new(self.http.clone());
        let (manifest, unpinned) = match place.digest() {
            Some(digest) => {
                let (manifest, _) = puller.manifest(&place, Some(digest)).await?;
                (manifest, ChecksumSource::Pinned)
            }
            None => {
                let ((manifest, _), by) = puller.by_tag(&place).await?;
                (manifest, puller.checksum(&place, by)?)
            }
        };
        let manifest: Value = serde_json::from_slice(&manifest).unwrap_or_default();
        let mut layers = manifest["layers"].as_array().into_iter().flatten();
        let layer = layers.find(|layer| layer["mediaType"] == CHART_TYPE);
        let blob = layer.and_then(|layer| {
            Some(Descriptor {
                media_type: CHART_TYPE.to_owned(),
                digest: layer["digest"].as_str()?.parse().ok()?,
                size: layer["size"].as_u64()?,
            })
        });
        let blob = blob.ok_or_else(|| wrong(&ShownUrl::from(url), "is not a Helm chart"))?;
        let expected = stated.as_ref().map(|(digest, _)| *digest);
        let expected = expected.or_else(|| self.seen(url).map(|(digest, _)| digest));
        if let Some(expected) = expected.filter(|expected| *expected != blob.digest) {
            return Err(FetchError::Checksum {
                what: place.to_string(),
                url: ShownUrl::from(url),
                expected,
                got: blob.digest,
            });
        }
        puller.blob(&place, &blob).await?;
        Ok(Raw {
            digest: blob.digest,
            size: blob.size,
            checksum: stated.map_or(unpinned, |(_, checksum)| checksum),
            url: Some(url.clone()),
            name: place.repository().to_owned(),
        })
    }

    async fn on_disk(&self, path: &Path, expected: Option<Digest>) -> Result<Raw, FetchError> {
        let (http, from) = (self.http.clone(), path.to_owned());
        let copied = tokio::task::spawn_blocking(move || copy_in(&http, &from, expected));
        let (digest, size) = copied
            .await
            .map_err(|error| wrong(&path.display(), error.to_string()))??;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(Raw {
            digest,
            size,
            checksum: match expected {
                Some(_) => ChecksumSource::Pinned,
                None => ChecksumSource::FirstSeen,
            },
            url: None,
            name: name.into_owned(),
        })
    }

    /// Packs a chart's directory into the cache.
    async fn packed(&self, folder: &Path, expected: Option<Digest>) -> Result<Raw, FetchError> {
        let from = folder.to_owned();
        let failed = |error: String| wrong(&folder.display(), error);
        let packed = tokio::task::spawn_blocking(move || directory::pack(&from));
        let packed = packed.await.map_err(|error| failed(error.to_string()))?;
        let packed = packed.map_err(|error| wrong(&folder.display(), error))?;
        self.made(folder, &packed, expected, String::new())
    }

    /// Renders a kustomization into the cache. Its name is that of the directory.
    async fn rendered(&self, folder: &Path, expected: Option<Digest>) -> Result<Raw, FetchError> {
        let kubectl = self.renderers.kubectl.as_ref();
        let text = kustomize::render(folder, kubectl, self.http.sandbox()).await?;
        let real = folder.canonicalize().ok();
        let name = real.as_deref().unwrap_or(folder).file_name();
        let name = name.unwrap_or_default().to_string_lossy();
        self.made(folder, &text, expected, format!("{name}.yaml"))
    }

    /// Puts what was made of a directory into the cache.
    fn made(
        &self,
        folder: &Path,
        content: &[u8],
        expected: Option<Digest>,
        name: String,
    ) -> Result<Raw, FetchError> {
        let digest = self.http.cache().insert(content)?;
        if let Some(expected) = expected.filter(|expected| *expected != digest) {
            let reason = format!("has the digest {digest}, and sha256 names {expected}");
            return Err(wrong(&folder.display(), reason));
        }
        Ok(Raw {
            digest,
            size: content.len() as u64,
            checksum: match expected {
                Some(_) => ChecksumSource::Pinned,
                None => ChecksumSource::FirstSeen,
            },
            url: None,
            name,
        })
    }

    async fn look_into(
        &self,
        source: &ArtifactSource,
        raw: Raw,
    ) -> Result<FetchedArtifact, FetchError> {
        let mut fetched = FetchedArtifact {
            artifact: LockedArtifact {
                kind: source.kind,
                name: source.name.clone().unwrap_or(raw.name),
                version: None,
                url: raw.url,
                size: raw.size,
                digest: raw.digest,
                checksum: raw.checksum,
                images: Vec::new(),
            },
            found: Vec::new(),
            doubt: None,
        };
        match source.kind {
            ArtifactKind::File => {}
            ArtifactKind::Manifest => self.manifest(&mut fetched)?,
            ArtifactKind::Chart => self.chart(source, &mut fetched).await?,
        }
        fetched
            .artifact
            .check()
            .map_err(|message| FetchError::resolve(message.to_string()))?;
        images::sort(&mut fetched.found);
        let mut sure: BTreeSet<ImageRef> = fetched.found.iter().filter_map(Found::sure).collect();
        sure.extend(source.addon.iter().flat_map(|addon| addon.images.clone()));
        fetched.artifact.images = sure.into_iter().collect();
        Ok(fetched)
    }

    fn manifest(&self, fetched: &mut FetchedArtifact) -> Result<(), FetchError> {
        let name = &fetched.artifact.name;
        if fetched.artifact.size > LARGEST_MANIFEST {
            return Err(wrong(
                name,
                "is larger than 64 MiB, the limit for a manifest",
            ));
        }
        let text = String::from_utf8(self.http.cache().read(&fetched.artifact.digest)?)
            .map_err(|_| wrong(name, "is not UTF-8 text, so it is not a manifest"))?;
        if text.lines().any(|line| line.starts_with(KUSTOMIZATION)) {
            let reason = Message::new("is a kustomization, which no API server accepts");
            return Err(wrong(
                name,
                reason.hint("name its directory in spec.kustomizations"),
            ));
        }
        if let Some(twice) = images::field_twice(&text) {
            return Err(twice.refused(name));
        }
        let read = images::images_in_yaml(&text, "", self.paths);
        if read.documents == 0 {
            return Err(wrong(
                name,
                "has no YAML document with a kind, so it is not a manifest",
            ));
        }
        if read.unreadable > 0 {
            fetched.doubt = Some(format!(
                "{} of its documents are not valid YAML; kubexm searched only their lines with 'image:'",
                read.unreadable
            ));
        }
        fetched.found = read.found;
        Ok(())
    }

    async fn chart(
        &self,
        source: &ArtifactSource,
        fetched: &mut FetchedArtifact,
    ) -> Result<(), FetchError> {
        let (cache, digest) = (self.http.cache().clone(), fetched.artifact.digest);
        let opened = tokio::task::spawn_blocking(move || Chart::open(&cache, &digest));
        let opened = opened
            .await
            .map_err(|error| wrong(&source.location, error.to_string()))?;
        let chart = opened.map_err(|reason| wrong(&source.location, reason))?;
        fetched.artifact.name.clone_from(&chart.name);
        fetched.artifact.version = Some(chart.version.clone());
        let sandbox = self.http.sandbox();
        fetched.found.extend(plain::images_in_annotations(&chart));
        let own = self.values.get(&chart.name).into_iter().flatten();
        let of_kubexm = source.addon.as_ref().map(|addon| addon.values);
        for own in std::iter::once(of_kubexm).chain(own.map(|own| Some(own.as_str()))) {
            let rendering = Rendering {
                content: ChartContent::Packed(self.http.cache(), &fetched.artifact.digest),
                title: chart.title(),
                helm: self.renderers.helm.as_ref(),
                values: &source.values,
                own,
                kubernetes: self.kubernetes,
                release: None,
            };
            match rendering.run(sandbox).await? {
                Rendered::Text(text) => {
                    let found = images::images_in_yaml(&text, "", self.paths).found;
                    fetched.found.extend(found);
                }
                Rendered::No(reason) => {
                    fetched.found.extend(plain::images_in_chart(&chart));
                    fetched.doubt = Some(format!(
                        "{reason}, so kubexm only searched its values and templates for images"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Returns the images that the pods of a packed chart run with these values, which are JSON; or why helm cannot render it. The
/// fields at `paths` name images, too.
///
/// # Errors
/// The blob is not a chart, or helm cannot be isolated.
pub async fn images_of_chart(
    (blobs, digest, helm): (&dyn Blobs, &Digest, &Helm),
    values: &str,
    (kubernetes, paths): (&Version, &[ImagePath]),
    sandbox: &Sandbox,
) -> Result<Result<Vec<Found>, String>, FetchError> {
    let chart = Chart::open(blobs, digest).map_err(|reason| wrong(&digest, reason))?;
    let rendering = Rendering {
        content: ChartContent::Packed(blobs, digest),
        title: chart.title(),
        helm: Some(helm),
        values: &[],
        own: Some(values),
        kubernetes: Some(kubernetes),
        release: None,
    };
    Ok(match rendering.run(sandbox).await? {
        Rendered::No(reason) => Err(reason),
        Rendered::Text(text) => {
            let mut found = images::images_in_yaml(&text, "", paths).sorted();
            found.retain(|one| one.is_sure);
            Ok(found)
        }
    })
}

/// Fetches a file without a stated digest; returns its digest, its size and the trust basis.
pub(super) async fn first_seen(
    http: &Http,
    wanted: &Wanted,
) -> Result<(Digest, u64, ChecksumSource), FetchError> {
    let (digest, size, by) = http.download_first_seen(wanted).await?;
    let checksum = match by {
        StatedBy::Publisher => ChecksumSource::FirstSeen,
        StatedBy::Mirror => ChecksumSource::Mirror(wanted.url.clone()),
    };
    Ok((digest, size, checksum))
}

#[cfg(test)]
mod tests;

//! `bundle find-images`: which images charts, manifests and lists need, and why.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::sources::values_of_charts;
use kubexm_bundle::Lock;
use kubexm_catalog::Catalog;
use kubexm_config::manifest::Manifest;
use kubexm_fetch::artifacts::{
    ArtifactFetcher, Found, Renderers, has_chart, has_kustomization, images_in_yaml,
};
use kubexm_fetch::resolve::Resolver;
use kubexm_fetch::signatures::{Policies, trusted_roots};
use kubexm_session::downloads::DownloadOptions;
use kubexm_session::{BundleAccess, CommandError, FileError};
use kubexm_types::artifact::{ArtifactKind, ArtifactLocation, ArtifactSource};
use kubexm_types::event::Events;
use kubexm_types::{Arch, ImagePath, ImageRef, Version};

/// The largest size of manifests on standard input, in bytes.
const LARGEST_INPUT: u64 = 256 * 1024 * 1024;

/// Something that needs images.
#[derive(Debug, Clone)]
pub enum ImageSource {
    /// A chart: a directory, an archive or an address.
    Chart(ArtifactLocation),
    /// Manifests, or the directory of a kustomization.
    Manifest(ArtifactLocation),
    /// A list with one image in a line.
    List(PathBuf),
    /// Manifests on standard input.
    Input,
}

/// Where to look, and with which programs.
#[derive(Debug, Clone)]
pub struct FindOptions {
    /// What to search.
    pub sources: Vec<ImageSource>,
    /// A bundle manifest, whose charts and manifests are searched, too. Its helm and kubectl render.
    pub manifest: Option<PathBuf>,
    /// A bundle, whose helm and kubectl render.
    pub bundle: Option<PathBuf>,
    /// How the bundle is opened.
    pub access: BundleAccess,
    /// Values for the charts among `sources`.
    pub values: Vec<PathBuf>,
    /// A cluster file with values of applications.
    pub cluster: Option<PathBuf>,
    /// Fields of custom resources that name images.
    pub paths: Vec<ImagePath>,
    /// How to download.
    pub downloads: DownloadOptions,
}

/// The images that were found.
#[derive(Debug, Clone, Serialize)]
pub struct FoundImages {
    /// What was searched.
    pub sources: Vec<SourceImages>,
}

/// The images of one chart, manifest or list.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceImages {
    /// Its kind, name and version.
    pub source: String,
    /// Why the list may be incomplete.
    pub doubt: Option<String>,
    pub images: Vec<NeededImage>,
}

/// An image, and why it is needed.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NeededImage {
    /// The full name; the text of the field, if it has none.
    pub name: String,
    /// The object and its field.
    pub place: String,
    /// Whether a build includes it. The others are candidates.
    pub included: bool,
    /// Why the text is not the name of an image that can be fetched.
    pub problem: Option<String>,
}

impl ImageSource {
    /// Returns what a path or an address has, by its name and by the files in it. `-` is standard input.
    ///
    /// # Errors
    /// It is a directory without a chart and a kustomization, or an address of another form.
    pub fn parse(text: &str) -> Result<Self, CommandError> {
        if text == "-" {
            return Ok(Self::Input);
        }
        let location = ArtifactLocation::parse(text)
            .map_err(|error| CommandError::configuration(error.to_string()))?;
        let is_archive = text.ends_with(".tgz") || text.ends_with(".tar.gz");
        let folder = match &location {
            ArtifactLocation::Path(path) if path.is_dir() => Some(path.clone()),
            ArtifactLocation::Path(path) if text.ends_with(".txt") => {
                return Ok(Self::List(path.clone()));
            }
            _ => None,
        };
        match folder {
            None if is_archive || text.starts_with("oci://") => Ok(Self::Chart(location)),
            None => Ok(Self::Manifest(location)),
            Some(folder) if has_chart(&folder) => Ok(Self::Chart(location)),
            Some(folder) if has_kustomization(&folder) => Ok(Self::Manifest(location)),
            Some(_) => Err(CommandError::configuration(format!(
                "{text}: has neither a Chart.yaml nor a kustomization.yaml"
            ))
            .hint("name a chart, a kustomization, a manifest or a list of images (.txt)")),
        }
    }
}

/// Searches all sources. Charts that are not on this machine are downloaded into the cache, and so is the helm.
///
/// # Errors
/// A file cannot be read, a download fails, or helm cannot be isolated.
pub async fn find_images(
    options: &FindOptions,
    events: &Events,
) -> Result<FoundImages, CommandError> {
    let manifest = options
        .manifest
        .as_deref()
        .map(kubexm_config::load_manifest);
    let manifest = manifest.transpose()?;
    let bundle = options
        .bundle
        .as_deref()
        .map(|path| options.access.open(path));
    let bundle = bundle.transpose()?;
    let mut sources: Vec<Source> = options
        .sources
        .iter()
        .map(|source| options.source(source))
        .collect();
    let mut paths = options.paths.clone();
    if let Some(manifest) = &manifest {
        let artifacts = manifest.artifacts.iter();
        let artifacts = artifacts.filter(|artifact| artifact.kind != ArtifactKind::File);
        sources.extend(
            artifacts
                .cloned()
                .map(|artifact| Source::Artifact(Box::new(artifact))),
        );
        paths.extend(manifest.image_paths.iter().cloned());
    }
    if let Some(bundle) = &bundle {
        paths.extend(bundle.lock().image_paths.iter().cloned());
    }
    if sources.is_empty() {
        return Err(CommandError::configuration(
            "nothing to search: name a chart, a manifest or a list of images",
        ));
    }
    let http = options.downloads.http(events)?;
    let artifacts = sources.iter().filter_map(|source| match source {
        Source::Artifact(artifact) => Some((**artifact).clone()),
        _ => None,
    });
    let artifacts: Vec<ArtifactSource> = artifacts.collect();
    let renderers = match (&manifest, &bundle) {
        (_, Some(bundle)) => Renderers::unpack(bundle, &bundle.lock().files, artifacts.iter())?,
        (Some(manifest), None) => of_manifest(manifest, &artifacts, &http).await?,
        (None, None) => Renderers::default(),
    };
    let fetcher = ArtifactFetcher {
        http: &http,
        previous: None,
        kubernetes: version(
            manifest.as_ref(),
            bundle.as_ref().map(|bundle| bundle.lock()),
        ),
        renderers,
        values: &options.values_of_charts(manifest.as_ref(), events)?,
        paths: &paths,
    };
    let mut found = Vec::new();
    for source in &sources {
        found.push(source.search(&fetcher).await?);
    }
    Ok(FoundImages { sources: found })
}

/// Returns the version of Kubernetes for which charts are rendered.
fn version<'a>(manifest: Option<&'a Manifest>, lock: Option<&'a Lock>) -> Option<&'a Version> {
    let versions = manifest.map(|manifest| &manifest.kubernetes);
    versions.or(lock.map(|lock| &lock.kubernetes))?.iter().max()
}

/// Fetches and verifies the programs of a manifest that render artifacts, as a build does.
async fn of_manifest(
    manifest: &Manifest,
    artifacts: &[ArtifactSource],
    http: &kubexm_fetch::Http,
) -> Result<Renderers, CommandError> {
    let mut manifest = manifest.clone();
    manifest.architectures = Arch::of_this_machine().into_iter().collect();
    let catalog = Catalog::embedded()?;
    let policies = Policies::load(&catalog, &manifest.signatures, &trusted_roots(&[])?)?;
    Ok(Resolver::new(http, &catalog, None, &policies)
        .renderers(&manifest, artifacts)
        .await?)
}

impl FindOptions {
    fn source(&self, source: &ImageSource) -> Source {
        let artifact =
            |kind, location: &ArtifactLocation| ArtifactSource::new(kind, location.clone());
        match source {
            ImageSource::Chart(location) => Source::Artifact(Box::new(ArtifactSource {
                values: self.values.clone(),
                ..artifact(ArtifactKind::Chart, location)
            })),
            ImageSource::Manifest(location) => {
                Source::Artifact(Box::new(artifact(ArtifactKind::Manifest, location)))
            }
            ImageSource::List(path) => Source::List(path.clone()),
            ImageSource::Input => Source::Input,
        }
    }

    fn values_of_charts(
        &self,
        manifest: Option<&Manifest>,
        events: &Events,
    ) -> Result<BTreeMap<String, Vec<String>>, CommandError> {
        let Some(path) = &self.cluster else {
            return Ok(BTreeMap::new());
        };
        let cluster = match manifest {
            Some(manifest) => kubexm_config::load_cluster_for(path, &manifest.kubernetes)?,
            None => kubexm_config::load_cluster(path)?,
        };
        values_of_charts(&cluster, events)
    }
}

/// A source with its options.
enum Source {
    Artifact(Box<ArtifactSource>),
    List(PathBuf),
    Input,
}

impl Source {
    async fn search(&self, fetcher: &ArtifactFetcher<'_>) -> Result<SourceImages, CommandError> {
        let images = |found: Vec<Found>| found.iter().map(NeededImage::of).collect();
        match self {
            Self::Artifact(source) => {
                let fetched = fetcher.fetch(source).await?;
                Ok(SourceImages {
                    source: fetched.artifact.describe(),
                    doubt: fetched.doubt,
                    images: images(fetched.found),
                })
            }
            Self::List(path) => {
                let list = kubexm_config::load_image_list(path)?;
                let place = path.display().to_string();
                Ok(SourceImages {
                    source: format!("list {place}"),
                    doubt: None,
                    images: list
                        .iter()
                        .map(|image| NeededImage::listed(image, &place))
                        .collect(),
                })
            }
            Self::Input => {
                let mut text = String::new();
                let failed =
                    |error: io::Error| FileError::new("read", Path::new("standard input"), error);
                let mut input = io::stdin().lock().take(LARGEST_INPUT);
                input.read_to_string(&mut text).map_err(failed)?;
                let read = images_in_yaml(&text, "", fetcher.paths);
                let unreadable = read.unreadable;
                Ok(SourceImages {
                    source: "standard input".to_owned(),
                    doubt: (unreadable > 0)
                        .then(|| format!("{unreadable} of its documents are not valid YAML")),
                    images: images(read.sorted()),
                })
            }
        }
    }
}

impl NeededImage {
    fn of(found: &Found) -> Self {
        Self {
            name: match &found.image {
                Ok(image) => image.to_string(),
                Err(_) => found.text.clone(),
            },
            place: found.place.clone(),
            included: found.sure().is_some(),
            problem: found.image.as_ref().err().cloned(),
        }
    }

    fn listed(image: &ImageRef, list: &str) -> Self {
        Self {
            name: image.to_string(),
            place: list.to_owned(),
            included: true,
            problem: None,
        }
    }
}

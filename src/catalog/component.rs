//! Components: their files and images, by templates.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::CatalogError;
use kubexm_bundle::lock::FileFormat;
use kubexm_config::cluster::{Addon, AddonContent};
use kubexm_types::artifact::{AddonSource, ArtifactKind, ArtifactLocation, ArtifactSource};
use kubexm_types::{Arch, ImageRef, Version};

/// One component of the catalog.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Component {
    /// The name in manifests and locks.
    pub(crate) name: String,
    /// URL of the file, with `{version}` and `{arch}`, or `{machine}` for the architecture's name in the kernel.
    url: Option<String>,
    format: Option<FileFormat>,
    /// URL of the Helm repository that has the chart of an add-on.
    repository: Option<url::Url>,
    /// URL of the checksum file.
    checksum: Option<String>,
    /// What an earlier catalog named. A build keeps it if its lock has it.
    former: Option<Former>,
    /// Files to extract from an archive.
    #[serde(default)]
    members: Vec<String>,
    /// Where the project lists its releases. kubelet and kubectl have the releases of kubeadm.
    pub(crate) releases: Option<Releases>,
    /// Images of every version.
    #[serde(default)]
    images: Vec<String>,
    /// Images of versions for which an earlier catalog named no manifest, by version.
    #[serde(default)]
    former_images: BTreeMap<String, Vec<String>>,
}

/// Where a project lists its releases.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Releases {
    /// Files that contain only a version.
    Stable {
        /// URL for the newest version.
        all: String,
        /// URL for the newest version of a minor, with `{major}` and `{minor}`.
        minor: String,
    },
    /// The Atom feed of the releases of a GitHub project.
    Feed(String),
}

/// A file of a version of a component.
#[derive(Debug, Clone)]
pub struct Download {
    pub component: String,
    pub version: Version,
    pub arch: Arch,
    pub url: url::Url,
    /// The last part of the URL.
    pub file_name: String,
    pub format: FileFormat,
    /// URL of the checksum file.
    pub checksum: Option<url::Url>,
    /// Files to extract from the archive.
    pub members: Vec<String>,
}

/// The file of a component in an earlier catalog. Everything else of the component is the same.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Former {
    url: String,
    checksum: Option<String>,
}

impl Component {
    /// Returns the file of a version; `None` if the component consists of images only.
    pub(crate) fn download(
        &self,
        version: &Version,
        arch: Arch,
    ) -> Result<Option<Download>, CatalogError> {
        match &self.url {
            Some(url) => self.file((url, self.checksum.as_deref()), version, arch),
            None => Ok(None),
        }
    }

    /// Returns the file that an earlier catalog named; `None` if it named the same as this one.
    pub(crate) fn former_download(
        &self,
        version: &Version,
        arch: Arch,
    ) -> Result<Option<Download>, CatalogError> {
        match &self.former {
            Some(former) => {
                let source = (former.url.as_str(), former.checksum.as_deref());
                self.file(source, version, arch)
            }
            None => Ok(None),
        }
    }

    /// Returns the chart or the manifest of a version of an add-on.
    pub(crate) fn addon(
        &self,
        addon: Addon,
        version: &Version,
    ) -> Result<ArtifactSource, CatalogError> {
        let properties = addon.properties();
        let missing = || CatalogError::Broken {
            file: self.name.clone(),
            reason: "has no repository and no url".to_owned(),
        };
        let mut source = match properties.content {
            AddonContent::Chart(chart) => {
                let location = ArtifactLocation::Repository {
                    url: self.repository.clone().ok_or_else(missing)?,
                    chart: chart.to_owned(),
                    version: version.to_string(),
                };
                ArtifactSource::new(ArtifactKind::Chart, location)
            }
            AddonContent::Manifest { name, .. } => {
                // It is the same for all architectures.
                let file = self.download(version, Arch::Amd64)?.ok_or_else(missing)?;
                ArtifactSource {
                    name: Some(name.to_owned()),
                    ..ArtifactSource::new(
                        ArtifactKind::Manifest,
                        ArtifactLocation::Address(file.url),
                    )
                }
            }
        };
        source.addon = Some(AddonSource {
            values: properties.values,
            images: self.images(version)?,
        });
        Ok(source)
    }

    /// Returns the images of a version.
    pub(crate) fn images(&self, version: &Version) -> Result<Vec<ImageRef>, CatalogError> {
        self.filled(&self.images, version)
    }

    /// Returns all images of a version for which an earlier catalog named no manifest.
    pub(crate) fn former_images(&self, version: &Version) -> Result<Vec<ImageRef>, CatalogError> {
        let images = self.former_images.get(&version.to_string());
        self.filled(images.map_or(&[], Vec::as_slice), version)
    }

    /// Returns the file at a URL with a checksum file, both with placeholders; `None` for a component without files.
    fn file(
        &self,
        (url, checksum): (&str, Option<&str>),
        version: &Version,
        arch: Arch,
    ) -> Result<Option<Download>, CatalogError> {
        let Some(format) = self.format else {
            return Ok(None);
        };
        let broken = |reason: String| CatalogError::Broken {
            file: self.name.clone(),
            reason,
        };
        let fill = |template: &str| fill(template, version, arch);
        let parse = |template: &str| {
            url::Url::parse(&fill(template)).map_err(|error| broken(error.to_string()))
        };
        let url = parse(url)?;
        let file_name = url
            .path_segments()
            .and_then(|mut parts| parts.next_back())
            .unwrap_or(&self.name);
        let checksum = checksum.map(parse).transpose()?;
        Ok(Some(Download {
            component: self.name.clone(),
            version: version.clone(),
            arch,
            file_name: file_name.to_owned(),
            format,
            checksum,
            members: self.members.iter().map(|member| fill(member)).collect(),
            url,
        }))
    }

    /// Returns images from their names with placeholders.
    fn filled(&self, texts: &[String], version: &Version) -> Result<Vec<ImageRef>, CatalogError> {
        let image = |text: &String| {
            let text = fill(text, version, Arch::Amd64);
            ImageRef::parse(&text).map_err(|error| CatalogError::Broken {
                file: self.name.clone(),
                reason: error.to_string(),
            })
        };
        texts.iter().map(image).collect()
    }
}

fn fill(template: &str, version: &Version, arch: Arch) -> String {
    template
        .replace("{version}", &version.to_string())
        .replace("{arch}", arch.name())
        .replace("{machine}", arch.machine())
}

//! What is in the registries of a cluster, for people and programs.

use serde::Serialize;

use super::catalog::Catalog;
use super::image::Image;
use super::site::Site;
use super::uses::Uses;
use kubexm_engine::seed::total;
use kubexm_types::message::HostReason;
use kubexm_types::{Digest, HostName};

/// The images of all registries of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistryReport {
    /// The name of the cluster.
    pub cluster: String,
    /// The hosts whose registries were read.
    pub hosts: Vec<HostName>,
    /// The hosts whose registries could not be read.
    pub unread: Vec<HostReason>,
    /// Why it is not known which images the cluster uses; `None` if it is.
    pub uses_unknown: Option<String>,
    /// The images, in the order of their names.
    pub images: Vec<ListedImage>,
    /// The size of all blobs that the images consist of, in bytes. Blobs of several images count once.
    pub size: u64,
}

/// An image in the registries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedImage {
    /// The name, as pods have it.
    pub name: String,
    /// The digest of its manifest.
    pub digest: Digest,
    /// Its architectures.
    pub platforms: Vec<String>,
    /// The size of its blobs, in bytes. Other images may share some of them.
    pub size: u64,
    /// Whether all registries have the whole image.
    pub is_equal: bool,
    /// What each registry has of it.
    pub hosts: Vec<HostCopy>,
    /// The pods, workloads and nodes that use it; `None` if it is not known whether pods do.
    pub used_by: Option<Vec<String>>,
}

/// What the registry of a host has of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostCopy {
    /// The host.
    pub host: HostName,
    /// What it has.
    pub copy: Copy,
}

/// How much of an image a registry has.
#[derive(Debug, Clone, std::marker::Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Copy {
    /// Everything.
    Complete,
    /// The name, but not all blobs.
    Incomplete,
    /// Another image has the name.
    Different,
    /// Nothing has the name.
    Missing,
}

impl Copy {
    /// Returns the word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Incomplete => "incomplete",
            Self::Different => "another image",
            Self::Missing => "missing",
        }
    }
}

impl RegistryReport {
    /// Judges the registries of a cluster.
    pub(super) fn of(site: &Site<'_>, catalog: &Catalog, uses: &Uses) -> Self {
        let mut all = std::collections::BTreeMap::new();
        let images = catalog.images();
        let images = images.iter().map(|image| {
            all.extend(catalog.content(image).blobs().clone());
            listed(catalog, uses, image)
        });
        let images = images.collect();
        let registries = catalog.registries.iter();
        Self {
            cluster: site.cluster.name.clone(),
            hosts: registries.map(|registry| registry.name.clone()).collect(),
            unread: site
                .lost
                .iter()
                .map(|error| HostReason::new(error.host().clone(), error.message()))
                .collect(),
            uses_unknown: uses.unknown.clone(),
            images,
            size: total(all.values()),
        }
    }

    /// Returns whether a registry that was read differs from the others, or does not have a whole image.
    pub fn has_differences(&self) -> bool {
        self.images.iter().any(|image| !image.is_equal)
    }
}

fn listed(catalog: &Catalog, uses: &Uses, image: &Image) -> ListedImage {
    let content = catalog.content(image);
    let hosts = catalog.registries.iter().map(|registry| HostCopy {
        host: registry.name.clone(),
        copy: match catalog.digest_in(image, registry) {
            None => Copy::Missing,
            Some(digest) if digest != image.digest => Copy::Different,
            Some(_) if content.missing_in(&registry.storage).is_empty() => Copy::Complete,
            Some(_) => Copy::Incomplete,
        },
    });
    let hosts: Vec<HostCopy> = hosts.collect();
    let used_by = uses.of(catalog, image);
    ListedImage {
        name: image.name(),
        digest: image.digest,
        platforms: catalog.platforms(image),
        size: total(content.blobs().values()),
        is_equal: hosts.iter().all(|host| host.copy == Copy::Complete),
        hosts,
        used_by: (uses.unknown.is_none() || !used_by.is_empty()).then_some(used_by),
    }
}

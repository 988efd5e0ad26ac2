//! What the lock says of things of the user's own.

use serde::{Deserialize, Serialize};
use url::Url;

use crate::lock::checksum_source::ChecksumSource;
use crate::lock::text;
use kubexm_types::own::OwnKind;
use kubexm_types::{Digest, ImageRef};

/// A file, chart or manifest of the user's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedArtifact {
    /// What it is.
    pub kind: OwnKind,
    /// Its name among its kind: a chart's own, else a file name.
    pub name: String,
    /// A chart's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Public address (never a mirror's); none where it was a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<Url>,
    /// Bytes.
    pub size: u64,
    /// SHA-256.
    pub digest: Digest,
    /// Where the expected digest came from.
    pub checksum: ChecksumSource,
    /// Images that its pods run, as far as they are known for sure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageRef>,
}

impl LockedArtifact {
    /// The name that it has as a file.
    pub fn file_name(&self) -> String {
        match (&self.version, self.kind) {
            (Some(version), OwnKind::Chart) => format!("{}-{version}.tgz", self.name),
            _ => self.name.clone(),
        }
    }

    /// What a person calls it.
    pub fn describe(&self) -> String {
        match &self.version {
            Some(version) => format!("{} {} {version}", self.kind, self.name),
            None => format!("{} {}", self.kind, self.name),
        }
    }

    /// Whether its name can stand in a lock, and be a file's.
    ///
    /// # Errors
    /// It cannot; what to do.
    pub fn check(&self) -> Result<(), String> {
        let version = self.version.as_deref().unwrap_or("0");
        let names = [self.name.as_str(), version];
        match names.iter().all(|text| text::name("name", text).is_ok()) {
            true => Ok(()),
            false => Err(format!(
                "'{}' cannot be the name of a {}: give it one without blanks and slashes",
                self.name.escape_default(),
                self.kind
            )),
        }
    }

    /// Its media type in the artifact manifest.
    pub(crate) fn media_type(&self) -> &'static str {
        match self.kind {
            OwnKind::File => "application/octet-stream",
            OwnKind::Chart => "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
            OwnKind::Manifest => "application/yaml",
        }
    }
}

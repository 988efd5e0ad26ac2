//! Artifacts of the user in the lock.

use serde::{Deserialize, Serialize};
use url::Url;

use crate::lock::checksum_source::ChecksumSource;
use crate::lock::text;
use kubexm_types::artifact::ArtifactKind;
use kubexm_types::{Digest, ImageRef, Message};

/// A file, chart or manifest of the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedArtifact {
    pub kind: ArtifactKind,
    /// The name in the chart, or the file name. Unique among artifacts of the same kind and version.
    pub name: String,
    /// The version of a chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Public address, never that of a mirror; not set for a local file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<Url>,
    /// Size in bytes.
    pub size: u64,
    pub digest: Digest,
    /// Trust basis of the digest.
    pub checksum: ChecksumSource,
    /// Images that its pods certainly run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageRef>,
}

impl LockedArtifact {
    /// Returns the file name of the extracted artifact.
    pub fn file_name(&self) -> String {
        match (&self.version, self.kind) {
            (Some(version), ArtifactKind::Chart) => format!("{}-{version}.tgz", self.name),
            _ => self.name.clone(),
        }
    }

    /// Returns kind, name and version for messages.
    pub fn describe(&self) -> String {
        match &self.version {
            Some(version) => format!("{} {} {version}", self.kind, self.name),
            None => format!("{} {}", self.kind, self.name),
        }
    }

    /// Checks that the name and the version are valid in a lock and in a file name.
    ///
    /// # Errors
    /// They are not valid.
    pub fn check(&self) -> Result<(), Message> {
        let version = self.version.as_deref().unwrap_or("0");
        let names = [self.name.as_str(), version];
        if names.iter().all(|text| text::name("name", text).is_ok()) {
            Ok(())
        } else {
            Err(Message::new(format!(
                "'{}' is not a valid name of a {}",
                self.name.escape_default(),
                self.kind
            ))
            .hint("give it a name without blanks and slashes"))
        }
    }

    /// Returns the media type in the artifact manifest.
    pub(crate) fn media_type(&self) -> &'static str {
        match self.kind {
            ArtifactKind::File => "application/octet-stream",
            ArtifactKind::Chart => "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
            ArtifactKind::Manifest => "application/yaml",
        }
    }
}

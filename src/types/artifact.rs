//! Artifacts: files, Helm charts and Kubernetes manifests that a user adds to a bundle.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use url::Url;

use super::{Digest, ImageRef, InvalidValue, ShownUrl};

/// The kind of an artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArtifactKind {
    /// A file.
    File,
    /// A packaged Helm chart.
    Chart,
    /// A YAML file for `kubectl apply`.
    Manifest,
}

impl ArtifactKind {
    /// Returns the name in locks and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Chart => "chart",
            Self::Manifest => "manifest",
        }
    }
}

impl fmt::Display for ArtifactKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The location of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArtifactLocation {
    /// A file on this machine.
    Path(PathBuf),
    /// A URL: `https://`, `http://`, and for charts `oci://registry/chart:version`.
    Address(Url),
    /// A chart in a Helm repository (<https://helm.sh/docs/topics/chart_repository/>).
    Repository {
        /// The URL of the repository.
        url: Url,
        /// The name of the chart.
        chart: String,
        /// The version, as the index of the repository spells it.
        version: String,
    },
}

impl ArtifactLocation {
    /// Parses a URL. A text without `://` is a path.
    ///
    /// # Errors
    /// The scheme is not supported, or the URL contains a password, which would be written into the lock.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let wrong = |reason: &str| {
            // A URL that cannot be parsed may contain a password.
            let shown = ShownUrl::of_text(text);
            InvalidValue::new("address", shown.as_str(), reason)
        };
        if text.is_empty() {
            return Err(wrong("is empty"));
        }
        if !text.contains("://") {
            return Ok(Self::Path(text.into()));
        }
        let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
        if !["https", "http", "oci"].contains(&url.scheme()) {
            return Err(wrong(
                "expected https://, http:// or a path; oci:// for charts",
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            let reason = "contains a user or password, which would be written into the lock";
            return Err(wrong(reason));
        }
        Ok(Self::Address(url))
    }
}

impl std::str::FromStr for ArtifactLocation {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        Self::parse(text)
    }
}

impl fmt::Display for ArtifactLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Address(url) => url.fmt(f),
            Self::Repository {
                url,
                chart,
                version,
            } => write!(f, "{chart} {version} of {url}"),
        }
    }
}

/// An artifact that a bundle manifest or an option names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactSource {
    pub kind: ArtifactKind,
    /// The file name in the bundle; `None` for the file name of the location. Charts contain their name.
    pub name: Option<String>,
    pub location: ArtifactLocation,
    /// The required digest.
    pub sha256: Option<Digest>,
    /// Values files with which a chart is rendered to find its images.
    pub values: Vec<PathBuf>,
    /// What kubexm knows of an add-on.
    pub addon: Option<AddonSource>,
}

/// What kubexm knows of the chart or manifest of an add-on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddonSource {
    /// Values with which kubexm installs it, as YAML. A chart is rendered with them before other values.
    pub values: &'static str,
    /// Images that pods need and that neither the chart nor the manifest names as such.
    pub images: Vec<ImageRef>,
}

impl ArtifactSource {
    /// Creates a source without a name, a digest and values.
    pub fn new(kind: ArtifactKind, location: ArtifactLocation) -> Self {
        Self {
            kind,
            name: None,
            location,
            sha256: None,
            values: Vec::new(),
            addon: None,
        }
    }
}

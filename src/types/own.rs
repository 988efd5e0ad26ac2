//! Things of the user's own that travel in a bundle: files, Helm charts, Kubernetes manifests.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use url::Url;

use super::{Digest, InvalidValue};

/// What kind of thing it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OwnKind {
    /// Any file.
    File,
    /// A packed Helm chart.
    Chart,
    /// YAML for `kubectl apply`.
    Manifest,
}

impl OwnKind {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Chart => "chart",
            Self::Manifest => "manifest",
        }
    }
}

impl fmt::Display for OwnKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where it is had from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnPlace {
    /// A file on this machine.
    Path(PathBuf),
    /// An address: `https://`, `http://`, and for charts `oci://registry/chart:version`.
    Address(Url),
    /// A chart in a Helm repository (<https://helm.sh/docs/topics/chart_repository/>).
    Repository {
        /// The repository's address.
        url: Url,
        /// The chart.
        chart: String,
        /// Its version, as the repository spells it.
        version: String,
    },
}

impl OwnPlace {
    /// Reads an address, or else takes the text for a path.
    ///
    /// # Errors
    /// The address is none that kubexm asks, or carries a password, which would end up in the lock.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let wrong = |reason: &str| InvalidValue::new("address", text, reason);
        if text.is_empty() {
            return Err(wrong("is empty"));
        }
        if !text.contains("://") {
            return Ok(Self::Path(text.into()));
        }
        let mut url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
        if !["https", "http", "oci"].contains(&url.scheme()) {
            return Err(wrong(
                "wants https://, http:// or a path; charts also oci://",
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            // An address without host takes none; then it has none to hide either.
            let _ = url.set_username("");
            let _ = url.set_password(None);
            let reason = "carries a user or password, which would be written into the lock";
            return Err(InvalidValue::new("address", url.as_str(), reason));
        }
        Ok(Self::Address(url))
    }
}

impl std::str::FromStr for OwnPlace {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        Self::parse(text)
    }
}

impl fmt::Display for OwnPlace {
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

/// One thing that a user wants in a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnSource {
    /// What it is.
    pub kind: OwnKind,
    /// The file name that it gets; else that of its source. Charts name themselves.
    pub name: Option<String>,
    /// Where it is had from.
    pub place: OwnPlace,
    /// What it must be.
    pub sha256: Option<Digest>,
    /// Values files that a chart is rendered with, to find its images.
    pub values: Vec<PathBuf>,
}

impl OwnSource {
    /// Of this kind from there, with nothing else said.
    pub fn new(kind: OwnKind, place: OwnPlace) -> Self {
        Self {
            kind,
            name: None,
            place,
            sha256: None,
            values: Vec::new(),
        }
    }
}

//! `spec.applications`.

use std::path::PathBuf;
use std::time::Duration;

use kubexm_kinds::{Addon, AddonContent};
use kubexm_types::{Namespace, ReleaseName, Secret};

/// An application of the user, which an install applies when the cluster is ready. Helm knows it as a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    pub name: ReleaseName,
    /// The namespace of its release, and of objects that do not name another one.
    pub namespace: Namespace,
    pub content: ApplicationContent,
    /// The applications that are applied before this one.
    pub needs: Vec<ReleaseName>,
    /// Whether the next applications wait until the objects of this one are ready.
    pub waits: bool,
    /// How long Helm may take, and wait.
    pub timeout: Duration,
}

/// What an application consists of. The bundle has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApplicationContent {
    Chart {
        /// The name in the chart.
        name: String,
        /// The version; `None` for the only one in the bundle.
        version: Option<String>,
        values: ApplicationValues,
    },
    /// The names of manifests, in their order.
    Manifests(Vec<String>),
    Addon {
        kind: Addon,
        /// The version; `None` for the only one in the bundle.
        version: Option<String>,
        /// Values that replace those of kubexm.
        values: ApplicationValues,
    },
    /// Objects of the site for an add-on, which [`kubexm_kinds::AddonObjects`] describes. They are a release of their own.
    AddonObjects(SiteObjects),
}

impl ApplicationContent {
    /// Returns the name of the chart of the bundle that it has; `None` for manifests and objects.
    pub fn chart(&self) -> Option<&str> {
        match self {
            Self::Chart { name, .. } => Some(name),
            Self::Addon { kind, .. } => match kind.properties().content {
                AddonContent::Chart(name) => Some(name),
                AddonContent::Manifest { .. } => None,
            },
            Self::Manifests(_) | Self::AddonObjects(_) => None,
        }
    }
}

/// What the cluster file has for the objects of an add-on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SiteObjects {
    /// The addresses that MetalLB gives to services: networks, and ranges as in `10.0.0.10-10.0.0.20`.
    Addresses(Vec<String>),
    /// The CA with which cert-manager signs certificates: files on this machine, as PEM.
    Issuer { certificate: PathBuf, key: PathBuf },
}

impl SiteObjects {
    /// Returns the add-on.
    pub fn addon(&self) -> Addon {
        match self {
            Self::Addresses(_) => Addon::MetalLb,
            Self::Issuer { .. } => Addon::CertManager,
        }
    }
}

/// Values for the templates of a chart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApplicationValues {
    /// Files on this machine. Values of a later one replace those of an earlier one.
    pub files: Vec<PathBuf>,
    /// The identity file of age with which encrypted files are decrypted.
    pub identity: Option<PathBuf>,
    /// Values of the cluster file, a JSON object. They replace those of the files.
    pub own: Option<Secret>,
    /// Values that neither has. They replace both.
    pub secrets: Vec<SecretValue>,
}

/// A value for the templates of a chart, which is read when it is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretValue {
    /// The fields that lead to it, from the outermost one.
    pub path: Vec<String>,
    pub source: ValueSource,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueSource {
    /// A file on this machine.
    File(PathBuf),
    /// An environment variable of kubexm.
    Variable(String),
}

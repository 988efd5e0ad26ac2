//! `spec.applications`.

use std::path::PathBuf;
use std::time::Duration;

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
}

/// Values for the templates of a chart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApplicationValues {
    /// Files on this machine. Values of a later one replace those of an earlier one.
    pub files: Vec<PathBuf>,
    /// Values of the cluster file, a JSON object. They replace those of the files.
    pub own: Option<Secret>,
}

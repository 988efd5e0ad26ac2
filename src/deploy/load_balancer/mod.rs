//! What stands before the API servers. A load balancer is one file here, with its templates.

use super::{DeployError, Inputs};
use crate::plan::Task;
use crate::spec::ImageRef;
use crate::spec::cluster::Cluster;

/// Components that the bundle must have for it, by catalog name.
pub(super) fn components(_: &Cluster) -> &'static [&'static str] {
    &[]
}

/// Images that it runs, on every node or on control planes.
pub(super) fn images(_: &Inputs<'_>) -> Vec<ImageRef> {
    Vec::new()
}

/// What must be there before the first control plane.
pub(super) fn tasks(_: &Inputs<'_>) -> Result<Vec<Task>, DeployError> {
    Ok(Vec::new())
}

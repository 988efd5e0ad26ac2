//! Names within the cluster.

mod coredns;
mod corefile;
#[cfg(test)]
mod tests;

use super::{DeployError, Inputs, id};
use crate::plan::{Task, TaskId};
use crate::spec::HostName;

/// Has names resolved in the cluster as the spec wants it.
pub(super) fn tasks(inputs: &Inputs<'_>) -> Result<Vec<Task>, DeployError> {
    Ok(coredns::configure(inputs)?.into_iter().collect())
}

/// The task after which the first control plane has told the cluster about DNS.
pub(super) fn configured(first: &HostName) -> TaskId {
    id("dns", "configure", first)
}

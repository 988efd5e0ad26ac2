//! Undo records of kubeadm's changes.

use crate::{Inputs, pod_leftovers, runtime};
use kubexm_engine::steps::Undo;
use kubexm_scripts::undo::{KUBEADM_RESET, MARKERS_REMOVE};

/// Returns the records of a node. A reset reverts the last record first: `kubeadm reset`, then its
/// leftovers.
pub(super) fn undo(inputs: &Inputs<'_>) -> Vec<Undo> {
    vec![
        Undo::run(MARKERS_REMOVE, ["kubeadm"]),
        pod_leftovers::remove("kubernetes"),
        Undo::run(KUBEADM_RESET, [socket(inputs)]),
    ]
}

/// Returns the socket of the cluster's runtime.
pub(super) fn socket(inputs: &Inputs<'_>) -> &'static str {
    runtime::configured(inputs).socket()
}

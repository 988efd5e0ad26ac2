//! Undo records of kubeadm's changes.

use crate::{Inputs, pod_leftovers, runtime};
use kubexm_engine::steps::Undo;
use kubexm_scripts::kubeadm;

/// Returns the records of a node. A reset reverts the last record first: `kubeadm reset`, then its
/// leftovers.
pub(super) fn undo(inputs: &Inputs<'_>) -> Vec<Undo> {
    vec![
        Undo::script(
            "Remove the marker files of kubeadm",
            "rm -f /var/lib/kubexm/done/kubeadm-*",
            [""; 0],
        ),
        pod_leftovers::remove("Remove links and rules of pods", "kubernetes"),
        Undo::script("Reset kubeadm", kubeadm::RESET, [socket(inputs)]),
    ]
}

/// Returns the socket of the cluster's runtime.
pub(super) fn socket(inputs: &Inputs<'_>) -> &'static str {
    runtime::configured(inputs).socket()
}

//! How a reset undoes what kubeadm did.

use crate::{Inputs, runtime, traces};
use kubexm_engine::steps::Undo;
use kubexm_scripts::kubeadm;

/// The records of a node. A reset reverts the last one first: kubeadm's reset, then what it leaves.
pub(super) fn undo(inputs: &Inputs<'_>) -> Vec<Undo> {
    vec![
        Undo::script(
            "Remove the marks of kubeadm",
            "rm -f /var/lib/kubexm/done/kubeadm-*",
            [""; 0],
        ),
        traces::remove("Remove links and rules of pods", "kubernetes"),
        Undo::script("Reset kubeadm", kubeadm::RESET, [socket(inputs)]),
    ]
}

/// The socket of the cluster's runtime.
pub(super) fn socket(inputs: &Inputs<'_>) -> &'static str {
    runtime::of_cluster(inputs).socket()
}

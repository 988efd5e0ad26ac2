//! Undo records of kubeadm's changes.

use super::etcd;
use crate::{Inputs, pod_leftovers};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::steps::Undo;
use kubexm_scripts::undo::{KUBEADM_RESET, MARKERS_REMOVE};

/// Returns the records of a node. A reset reverts the last record first: `kubeadm reset`, then its
/// leftovers.
pub(super) fn undo(inputs: &Inputs<'_>, host: &HostSpec) -> Vec<Undo> {
    let data = etcd::member_directory(inputs.cluster, host);
    let data = Some(data).filter(|data| !data.is_empty());
    let arguments = [socket(inputs).to_owned()].into_iter().chain(data);
    vec![
        Undo::run(MARKERS_REMOVE, ["kubeadm"]),
        pod_leftovers::remove("kubernetes"),
        Undo::run(KUBEADM_RESET, arguments),
    ]
}

/// Returns the socket of the cluster's runtime.
pub(super) fn socket(inputs: &Inputs<'_>) -> &'static str {
    inputs.cluster.runtime.kind.properties().socket
}

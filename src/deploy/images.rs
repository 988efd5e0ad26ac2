//! Images that a node must never lose: pulled before they are needed, and pinned.

use std::collections::BTreeSet;

use super::{BIN, DeployError, Inputs, id, network};
use crate::plan::Task;
use crate::spec::ImageRef;
use crate::spec::cluster::{Etcd, HostSpec};
use crate::steps::RunScript;

/// Ends with 0 where every image is there and pinned against the kubelet's garbage collection
/// (<https://github.com/containerd/containerd/blob/main/docs/cri/architecture.md>).
const PINNED: &str = r#"
images=$(ctr -n k8s.io images ls)
for image in "$@"; do
  printf %s "$images" | awk -v image="$image" '
    $1 == image && /io.cri-containerd.pinned=pinned/ { found = 1 } END { exit !found }' ||
    { echo "$image is not there or not pinned"; exit 1; }
done
"#;
const PULL: &str = r#"
pids=
for image in "$@"; do
  crictl pull "$image" >/dev/null & pids="$pids $!"
done
for pid in $pids; do wait "$pid"; done
for image in "$@"; do
  ctr -n k8s.io images label "$image" io.cri-containerd.pinned=pinned >/dev/null
done
"#;

/// Shims live on when containerd stops: pods must end before their files go.
const STOP_PODS: &str = r#"
export PATH=/usr/local/bin:$PATH
command -v crictl >/dev/null || exit 0
pods=$(crictl pods -q 2>/dev/null || :)
[ -z "$pods" ] || crictl rmp -f $pods >/dev/null 2>&1 || :
"#;

/// All images that the cluster needs.
pub(super) fn of_cluster(inputs: &Inputs<'_>) -> BTreeSet<ImageRef> {
    let facts = inputs.lock.kubeadm(&inputs.cluster.kubernetes.version);
    let mut images: BTreeSet<ImageRef> = facts
        .into_iter()
        .flat_map(|facts| facts.images.iter().cloned())
        .collect();
    if matches!(inputs.cluster.etcd, Etcd::External { .. }) {
        images.retain(|image| !image.repository().ends_with("etcd"));
    }
    images.extend(network::images(inputs));
    images
}

/// Those of them that a node runs whatever is scheduled to it.
fn of_node(inputs: &Inputs<'_>, host: &HostSpec) -> Vec<String> {
    let control_plane = inputs.cluster.is_control_plane(&host.name);
    let everywhere = |image: &ImageRef| {
        let name = image.repository();
        name.ends_with("pause") || name.ends_with("kube-proxy") || name.contains("flannel")
    };
    let images = of_cluster(inputs).into_iter();
    images
        .filter(|image| control_plane || everywhere(image))
        .map(|image| image.to_string())
        .collect()
}

/// Pulls and pins a node's images.
pub(super) fn pull(inputs: &Inputs<'_>, host: &HostSpec) -> Result<Task, DeployError> {
    let images = of_node(inputs, host);
    let title = format!("Pull and pin {} images", images.len());
    let path = format!("export PATH={BIN}:$PATH\n");
    let registries = inputs
        .cluster
        .roles
        .registry
        .iter()
        .map(|name| id("registry", "serve", name));
    let step = RunScript::new(
        "pinned images",
        title,
        &format!("{path}{PINNED}"),
        &format!("{path}{PULL}"),
    );
    Ok(Task::new("images", "pull", &host.name)
        .after(registries.chain([id("containerd", "install", &host.name)]))
        .step(step.undo_script("Stop pods", STOP_PODS).arguments(images)))
}

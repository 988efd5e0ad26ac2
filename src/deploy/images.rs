//! Images that a node must never lose: pulled before they are needed, and pinned.

use std::collections::BTreeSet;

use super::runtime::{self, Holds};
use super::{DeployError, Inputs, dns, kubernetes, load_balancer, network, registry};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::plan::Task;
use kubexm_engine::steps::RunScript;
use kubexm_scripts::runtime::STOP_PODS;
use kubexm_types::ImageRef;

/// All images that the cluster needs.
pub(super) fn of_cluster(inputs: &Inputs<'_>) -> BTreeSet<ImageRef> {
    let mut images: BTreeSet<ImageRef> = kubernetes::images(inputs).into_iter().collect();
    images.extend(network::images(inputs));
    images.extend(dns::images(inputs));
    images.extend(load_balancer::images(inputs));
    images
}

/// Those that a node holds before any pod asks for them.
pub(super) fn of_node(inputs: &Inputs<'_>, host: &HostSpec) -> Vec<String> {
    if runtime::of_cluster(inputs).holds() == Holds::Everything {
        let all = inputs.lock.images.iter().map(|image| &image.name);
        let named = all.filter(|name| name.tag().is_some());
        return named.map(ImageRef::to_string).collect();
    }
    let control_plane = inputs.cluster.is_control_plane(&host.name);
    let mut images: BTreeSet<ImageRef> = kubernetes::images(inputs)
        .into_iter()
        .filter(|image| control_plane || is_of_every_node(image))
        .collect();
    images.extend(network::images(inputs));
    images.extend(load_balancer::images_of(inputs, host));
    images.extend(dns::images(inputs));
    images.iter().map(ToString::to_string).collect()
}

fn is_of_every_node(image: &ImageRef) -> bool {
    let name = image.repository();
    name.ends_with("pause") || name.ends_with("kube-proxy")
}

/// Pulls and pins a node's images.
pub(super) fn pull(inputs: &Inputs<'_>, host: &HostSpec) -> Result<Task, DeployError> {
    let images = of_node(inputs, host);
    let title = format!("Pull and pin {} images", images.len());
    let registry = registry::endpoints(inputs).into_iter().next();
    let registry = registry.unwrap_or_default();
    let runtime = runtime::of_cluster(inputs);
    let scripts = runtime.images();
    let arguments = std::iter::once(registry).chain(images);
    let mut step = RunScript::new("pinned images", title, scripts.check, scripts.pull);
    // A reset reverts the last record first: pods end before what they leave behind is removed.
    if let Some(script) = runtime.after_pods() {
        step = step.undo_script("Stop what pods left running", script);
    }
    step = step.undo_script("Stop pods", STOP_PODS);
    Ok(Task::new("images", "pull", &host.name)
        .after(registry::ready(inputs))
        .after([runtime::installed(&host.name)])
        .step(step.arguments(arguments)))
}

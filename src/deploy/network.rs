//! The pod network.

use super::{DeployError, ETC, Inputs, KUBECTL, id};
use crate::plan::Task;
use crate::render::{self, network};
use crate::spec::cluster::NetworkPlugin;
use crate::spec::{HostPath, ImageRef};
use crate::steps::{RunScript, WriteFile};

/// Images of the cluster's network plugin, out of what the bundle has.
pub(super) fn images(inputs: &Inputs<'_>) -> Vec<ImageRef> {
    match inputs.cluster.network.plugin {
        NetworkPlugin::None => Vec::new(),
        NetworkPlugin::Flannel(_) => flannel_images(inputs).into_iter().flatten().collect(),
    }
}

/// flanneld and its CNI plugin.
fn flannel_images(inputs: &Inputs<'_>) -> [Option<ImageRef>; 2] {
    ["flannel-io/flannel", "flannel-io/flannel-cni-plugin"].map(|repository| {
        let mut images = inputs.lock.images.iter().map(|image| &image.name);
        images
            .find(|image| image.repository() == repository)
            .cloned()
    })
}

/// What the plugin needs and the bundle has not.
pub(super) fn lacking(inputs: &Inputs<'_>) -> Vec<String> {
    let flannel = matches!(inputs.cluster.network.plugin, NetworkPlugin::Flannel(_));
    if flannel && flannel_images(inputs).iter().any(Option::is_none) {
        return vec![
            "the network plugin flannel (spec.network.flannel of the manifest)".to_owned(),
        ];
    }
    Vec::new()
}

/// Applies the plugin's manifest from the first control plane.
pub(super) fn apply(inputs: &Inputs<'_>) -> Result<Option<Task>, DeployError> {
    let (NetworkPlugin::Flannel(backend), Some(first)) =
        (inputs.cluster.network.plugin, inputs.first())
    else {
        return Ok(None);
    };
    let [Some(image), Some(plugin_image)] = flannel_images(inputs) else {
        return Ok(None);
    };
    let cidr = &inputs.cluster.network.pod_cidr;
    let address_family = if cidr.contains(':') {
        format!("\"EnableIPv4\": false, \"EnableIPv6\": true, \"IPv6Network\": \"{cidr}\"")
    } else {
        format!("\"Network\": \"{cidr}\"")
    };
    let manifest = network::Flannel {
        image: image.to_string(),
        plugin_image: plugin_image.to_string(),
        address_family,
        nftables: inputs.cluster.kubernetes.proxy_mode == "nftables",
        backend: backend.name().to_owned(),
    };
    let path = HostPath::parse(&format!("{ETC}/flannel.yaml"))?;
    let kubectl = KUBECTL;
    let step = RunScript::new(
        "flannel",
        "Apply the pod network flannel",
        &format!("{kubectl} diff -f \"$1\" >/dev/null 2>&1 || {{ echo differs; exit 1; }}"),
        &format!("{kubectl} apply -f \"$1\" >/dev/null"),
    );
    let task = Task::new("network", "flannel", &first.name)
        .after([id("dns", "configure", &first.name)])
        .step(WriteFile::new(
            path.clone(),
            render::text("flannel", &manifest)?,
        ))
        .step(step.arguments([path.as_str()]));
    Ok(Some(task))
}

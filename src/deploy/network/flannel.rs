//! flannel, with the backend of the cluster file.

use ipnet::IpNet;

use super::Plugin;
use crate::{DeployError, Inputs};
use kubexm_config::cluster::{FlannelBackend, HostSpec, IpFamily, PluginKind, ProxyMode};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::TrackNewDirs;
use kubexm_render::network;
use kubexm_types::ImageRef;

/// flannel.
pub(super) struct Flannel {
    pub(super) backend: FlannelBackend,
}

impl Plugin for Flannel {
    fn images(&self, inputs: &Inputs<'_>) -> Vec<ImageRef> {
        flannel_images(inputs).into_iter().flatten().collect()
    }

    fn missing(&self, inputs: &Inputs<'_>) -> Vec<String> {
        if flannel_images(inputs).iter().all(Option::is_some) {
            Vec::new()
        } else {
            vec!["the network plugin flannel (spec.network.flannel of the manifest)".to_owned()]
        }
    }

    fn prepare(&self, _: &Inputs<'_>, _: &HostSpec, task: Task) -> Result<Task, DeployError> {
        Ok(task.step(TrackNewDirs::new(
            "flannel-folders",
            "flannel's files",
            &PluginKind::Flannel.properties().paths(),
        )?))
    }

    fn tasks(&self, inputs: &Inputs<'_>, first: &HostSpec) -> Result<Vec<Task>, DeployError> {
        let [Some(image), Some(plugin_image)] = flannel_images(inputs) else {
            return Err(DeployError::Incomplete(self.missing(inputs)));
        };
        let pods = inputs.cluster.network.pod_cidr;
        let mut address_families: Vec<String> = Vec::new();
        if !pods.has(IpFamily::V4) {
            address_families.push("\"EnableIPv4\": false".to_owned());
        }
        address_families.extend(pods.iter().map(|net| match net {
            IpNet::V6(net) => format!("\"EnableIPv6\": true, \"IPv6Network\": \"{net}\""),
            IpNet::V4(net) => format!("\"Network\": \"{net}\""),
        }));
        let manifest = network::Flannel {
            image: image.to_string(),
            plugin_image: plugin_image.to_string(),
            address_families: address_families.join(", "),
            nftables: inputs.cluster.kubernetes.kube_proxy.mode == ProxyMode::Nftables,
            backend: self.backend.name().to_owned(),
            is_dual: inputs.cluster.network.pod_cidr.is_dual(),
            files_of_root: inputs.cluster.security.is_cis(),
        };
        let text = kubexm_render::text("flannel", &manifest)?;
        Ok(vec![super::manifest("flannel", first, text)?])
    }
}

/// Returns the images of flanneld and its CNI plugin.
fn flannel_images(inputs: &Inputs<'_>) -> [Option<ImageRef>; 2] {
    // Until 0.26, flannel was published at Docker Hub under another name.
    [
        ["flannel-io/flannel", "flannel/flannel"],
        [
            "flannel-io/flannel-cni-plugin",
            "flannel/flannel-cni-plugin",
        ],
    ]
    .map(|names| names.into_iter().find_map(|name| inputs.image_of(name)))
}

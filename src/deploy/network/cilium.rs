//! Cilium: a manifest of the user, adapted to the cluster.
//!
//! The user creates it with `helm template` from the project's chart on the connected machine, because Helm
//! is not available behind the air gap. The bundle contains it as an artifact.

use ipnet::IpNet;
use serde_json::Value;

use super::Plugin;
use crate::{DeployError, Inputs, pod_leftovers};
use kubexm_config::cluster::{Cilium, CiliumRouting, HostSpec, PluginKind};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::TrackNewDirs;
use kubexm_render::RenderError;
use kubexm_render::objects::Objects;
use kubexm_types::ImageRef;
use kubexm_types::artifact::ArtifactKind;

/// The manifest's name in `spec.manifests` of the bundle manifest.
const FILE: &str = "cilium.yaml";

impl Plugin for Cilium {
    fn images(&self, inputs: &Inputs<'_>) -> Vec<ImageRef> {
        manifest(inputs).map_or_else(Vec::new, |own| own.images.clone())
    }

    fn missing(&self, inputs: &Inputs<'_>) -> Vec<String> {
        match manifest(inputs) {
            Some(_) => Vec::new(),
            None => vec![format!(
                "the network plugin cilium: create {FILE} with `helm template cilium cilium/cilium \
                 --namespace kube-system --set hubble.enabled=false`, and add it to spec.manifests"
            )],
        }
    }

    fn prepare(&self, _: &Inputs<'_>, _: &HostSpec, task: Task) -> Result<Task, DeployError> {
        Ok(task
            .step(TrackNewDirs::new(
                "cilium-folders",
                "Cilium's directories",
                &PluginKind::Cilium.properties().paths(),
            )?)
            .step(pod_leftovers::register_cleanup(
                "cilium",
                "Cilium's devices, programs and rules",
                "cilium",
            )))
    }

    fn tasks(&self, inputs: &Inputs<'_>, first: &HostSpec) -> Result<Vec<Task>, DeployError> {
        let own = manifest(inputs).ok_or_else(|| DeployError::Incomplete(self.missing(inputs)))?;
        let upstream = crate::manifest::of_bundle(inputs, "cilium", &own.digest)?;
        let text = adapted(self, &upstream, inputs.cluster.network.pod_cidr.primary())?;
        Ok(vec![super::manifest("cilium", first, text)?])
    }
}

/// Returns the user's manifest of this name.
fn manifest<'a>(
    inputs: &'a Inputs<'_>,
) -> Option<&'a kubexm_bundle::lock::user_content::LockedArtifact> {
    let mut own = inputs.lock.artifacts.iter();
    own.find(|own| own.kind == ArtifactKind::Manifest && own.name == FILE)
}

/// Returns the manifest with the cluster's pod network
/// (<https://docs.cilium.io/en/stable/network/kubernetes/configuration/>).
///
/// The controller manager assigns the pod subnets, and kube-proxy implements services.
fn adapted(cilium: &Cilium, manifest: &str, pod_cidr: IpNet) -> Result<String, RenderError> {
    let mut objects = Objects::parse("cilium", manifest)?;
    objects.drop_descriptions();
    let data = &mut objects.object("ConfigMap", "cilium-config")?["data"];
    let mut set = |name: &str, value: &str| data[name] = Value::from(value);
    set("ipam", "kubernetes");
    set("k8s-require-ipv4-pod-cidr", "true");
    set("kube-proxy-replacement", "false");
    match cilium.routing {
        CiliumRouting::Vxlan | CiliumRouting::Geneve => {
            set("routing-mode", "tunnel");
            set("tunnel-protocol", cilium.routing.name());
        }
        CiliumRouting::Native => {
            set("routing-mode", "native");
            set("auto-direct-node-routes", "true");
            set("ipv4-native-routing-cidr", &pod_cidr.to_string());
        }
    }
    if let Some(mtu) = cilium.mtu {
        set("mtu", &mtu.to_string());
    }
    objects.restart_with("cilium", "cilium-config")?;
    objects.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPSTREAM: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: cilium-config, namespace: kube-system}
data: {ipam: "cluster-pool", routing-mode: "tunnel", kube-proxy-replacement: "true", debug: "false"}
"#;

    fn data(routing: CiliumRouting, mtu: Option<u16>) -> Value {
        let cilium = Cilium { routing, mtu };
        let text = adapted(&cilium, UPSTREAM, "10.1.0.0/16".parse().unwrap()).unwrap();
        let object: Value = serde_saphyr::from_str(&text).unwrap();
        object["data"].clone()
    }

    #[test]
    fn chart_manifest_is_adapted_to_the_cluster() {
        let expected = serde_json::json!({
            "ipam": "kubernetes", "routing-mode": "tunnel", "kube-proxy-replacement": "false",
            "debug": "false", "k8s-require-ipv4-pod-cidr": "true", "tunnel-protocol": "geneve",
            "mtu": "1400",
        });
        assert_eq!(data(CiliumRouting::Geneve, Some(1400)), expected);
        let native = data(CiliumRouting::Native, None);
        assert_eq!(native["routing-mode"], "native");
        assert_eq!(native["ipv4-native-routing-cidr"], "10.1.0.0/16");
    }

    #[test]
    fn error_for_a_missing_manifest_explains_how_to_create_it() {
        use crate::example::{cluster, with_inputs};
        let cluster = cluster("", "network: {plugin: cilium}");
        let error = with_inputs(&cluster, &[], "", |inputs| {
            crate::plan(inputs).err().unwrap().to_string()
        });
        insta::assert_snapshot!(error, @"
        the bundle does not contain everything that this cluster needs; it is missing:
          the network plugin cilium: create cilium.yaml with `helm template cilium cilium/cilium --namespace kube-system --set hubble.enabled=false`, and add it to spec.manifests
        ");
    }
}

//! Cilium: a manifest that `helm template` made of the project's chart on the connected side and that
//! the bundle carries as one of the user's own, fitted to the cluster. There is no Helm behind the gap,
//! and a chart says nothing without it.

use ipnet::IpNet;
use serde_json::Value;

use super::Plugin;
use crate::{DeployError, Inputs, traces};
use kubexm_config::cluster::{Cilium, CiliumRouting, HostSpec};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::OwnFolders;
use kubexm_render::RenderError;
use kubexm_render::objects::Objects;
use kubexm_types::ImageRef;
use kubexm_types::own::OwnKind;

/// The manifest's name in `spec.manifests` of the bundle's.
const FILE: &str = "cilium.yaml";

const FOLDERS: [&str; 3] = [
    "/run/cilium",
    "/var/lib/cilium",
    "/etc/sysctl.d/99-zzz-override_cilium.conf",
];

impl Plugin for Cilium {
    fn images(&self, inputs: &Inputs<'_>) -> Vec<ImageRef> {
        manifest(inputs).map_or_else(Vec::new, |own| own.images.clone())
    }

    fn lacking(&self, inputs: &Inputs<'_>) -> Vec<String> {
        match manifest(inputs) {
            Some(_) => Vec::new(),
            None => vec![format!(
                "the network plugin cilium: make {FILE} with `helm template cilium cilium/cilium \
                 --namespace kube-system --set hubble.enabled=false`, and name it in spec.manifests"
            )],
        }
    }

    fn prepare(&self, _: &Inputs<'_>, _: &HostSpec, task: Task) -> Result<Task, DeployError> {
        Ok(task
            .step(OwnFolders::new(
                "cilium-folders",
                "Cilium's folders",
                &FOLDERS,
            )?)
            .step(traces::note(
                "cilium",
                "Cilium's devices, programs and rules",
                "cilium",
            )))
    }

    fn tasks(&self, inputs: &Inputs<'_>, first: &HostSpec) -> Result<Vec<Task>, DeployError> {
        let own = manifest(inputs).ok_or_else(|| DeployError::Incomplete(self.lacking(inputs)))?;
        let upstream = super::of_bundle(inputs, "cilium", &own.digest)?;
        let text = fitted(self, &upstream, inputs.cluster.network.pod_cidr)?;
        Ok(vec![super::manifest("cilium", first, text)?])
    }
}

/// The user's manifest of this name.
fn manifest<'a>(
    inputs: &'a Inputs<'_>,
) -> Option<&'a kubexm_bundle::lock::user_content::LockedArtifact> {
    let mut own = inputs.lock.own.iter();
    own.find(|own| own.kind == OwnKind::Manifest && own.name == FILE)
}

/// The manifest with the cluster's pod network
/// (<https://docs.cilium.io/en/stable/network/kubernetes/configuration/>). Nodes' pods have the
/// addresses that the controller manager gives them, and services are kube-proxy's.
fn fitted(cilium: &Cilium, manifest: &str, pod_cidr: IpNet) -> Result<String, RenderError> {
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
        let text = fitted(&cilium, UPSTREAM, "10.1.0.0/16".parse().unwrap()).unwrap();
        let object: Value = serde_saphyr::from_str(&text).unwrap();
        object["data"].clone()
    }

    #[test]
    fn the_charts_manifest_is_fitted_to_the_cluster() {
        let wanted = serde_json::json!({
            "ipam": "kubernetes", "routing-mode": "tunnel", "kube-proxy-replacement": "false",
            "debug": "false", "k8s-require-ipv4-pod-cidr": "true", "tunnel-protocol": "geneve",
            "mtu": "1400",
        });
        assert_eq!(data(CiliumRouting::Geneve, Some(1400)), wanted);
        let native = data(CiliumRouting::Native, None);
        assert_eq!(native["routing-mode"], "native");
        assert_eq!(native["ipv4-native-routing-cidr"], "10.1.0.0/16");
    }

    #[test]
    fn a_bundle_without_the_manifest_is_told_how_to_make_it() {
        use crate::example::{cluster, with_inputs};
        let cluster = cluster("", "network: {plugin: cilium}");
        let error = with_inputs(&cluster, &[], "", |inputs| {
            crate::plan(inputs).err().unwrap().to_string()
        });
        insta::assert_snapshot!(error, @"
        the bundle lacks what this cluster needs:
          the network plugin cilium: make cilium.yaml with `helm template cilium cilium/cilium --namespace kube-system --set hubble.enabled=false`, and name it in spec.manifests
        ");
    }
}

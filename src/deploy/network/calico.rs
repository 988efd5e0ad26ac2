//! Calico: the project's manifest from the bundle, adapted to the cluster.

use super::Plugin;
use crate::{DeployError, Inputs, pod_leftovers};
use kubexm_config::cluster::{Calico, Encapsulation, HostSpec, PluginKind, ProxyMode};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::TrackNewDirs;
use kubexm_render::RenderError;
use kubexm_render::objects::{Objects, set_variable};
use kubexm_types::ImageRef;

/// The manifest's name in the catalog.
const COMPONENT: &str = "calico";

impl Plugin for Calico {
    fn images(&self, inputs: &Inputs<'_>) -> Vec<ImageRef> {
        let images = inputs.lock.images.iter().map(|image| &image.name);
        images
            .filter(|image| image.repository().starts_with("calico/"))
            .cloned()
            .collect()
    }

    fn missing(&self, inputs: &Inputs<'_>) -> Vec<String> {
        if inputs
            .lock
            .files
            .iter()
            .any(|file| file.component == COMPONENT)
        {
            Vec::new()
        } else {
            vec!["the network plugin calico (spec.network.calico of the manifest)".to_owned()]
        }
    }

    fn prepare(&self, _: &Inputs<'_>, _: &HostSpec, task: Task) -> Result<Task, DeployError> {
        Ok(task
            .step(TrackNewDirs::new(
                "calico-folders",
                "Calico's directories",
                &PluginKind::Calico.properties().paths(),
            )?)
            .step(pod_leftovers::register_cleanup(
                "calico",
                "Calico's devices, routes and rules",
                "calico",
            )))
    }

    fn tasks(&self, inputs: &Inputs<'_>, first: &HostSpec) -> Result<Vec<Task>, DeployError> {
        let file = inputs.file(COMPONENT, &first.name)?;
        let upstream = crate::manifest::of_bundle(inputs, "calico", &file.digest)?;
        let text = adapted(self, &upstream, inputs)?;
        Ok(vec![super::manifest("calico", first, text)?])
    }
}

/// Returns the manifest with the cluster's pod network
/// (<https://docs.tigera.io/calico/latest/reference/configure-calico-node>).
fn adapted(calico: &Calico, manifest: &str, inputs: &Inputs<'_>) -> Result<String, RenderError> {
    let mut objects = Objects::parse("calico", manifest)?;
    objects.drop_descriptions();
    let data = &mut objects.object("ConfigMap", "calico-config")?["data"];
    data["calico_backend"] = backend(calico).into();
    if let Some(mtu) = calico.mtu {
        data["veth_mtu"] = mtu.to_string().into();
    }
    let node = objects.container("DaemonSet", "calico-node", "calico-node")?;
    let [ipip, vxlan] = match calico.encapsulation {
        Encapsulation::Vxlan => ["Never", "Always"],
        Encapsulation::Ipip => ["Always", "Never"],
        Encapsulation::None => ["Never", "Never"],
    };
    let pods = inputs.cluster.network.pod_cidr.to_string();
    let mut variables = vec![
        ("CALICO_IPV4POOL_CIDR", pods.as_str()),
        ("CALICO_IPV4POOL_IPIP", ipip),
        ("CALICO_IPV4POOL_VXLAN", vxlan),
        // Hosts may have several networks. The cluster uses that of the node's internal address.
        ("IP_AUTODETECTION_METHOD", "kubernetes-internal-ip"),
    ];
    if inputs.cluster.kubernetes.kube_proxy.mode == ProxyMode::Nftables {
        variables.push(("FELIX_NFTABLESMODE", "Enabled"));
    }
    for (name, value) in variables {
        set_variable(node, name, value);
    }
    if backend(calico) != "bird" {
        for probe in ["livenessProbe", "readinessProbe"] {
            let command = node[probe]["exec"]["command"].as_array_mut();
            let remove_bird = |arguments: &mut Vec<serde_json::Value>| {
                let is_bird = |argument: &str| argument.starts_with("-bird-");
                arguments.retain(|argument| !argument.as_str().is_some_and(is_bird));
            };
            command.map(remove_bird);
        }
    }
    objects.restart_with("calico-node", "calico-config")?;
    objects.text()
}

/// Returns Calico's backend: BGP (`bird`) announces routes if VXLAN does not carry the packets.
fn backend(calico: &Calico) -> &'static str {
    match calico.encapsulation {
        Encapsulation::Vxlan => "vxlan",
        Encapsulation::Ipip | Encapsulation::None => "bird",
    }
}

#[cfg(test)]
mod tests {
    use crate::example::{cluster, file_of, with_inputs};

    /// The parts of Calico's manifest that kubexm changes.
    const UPSTREAM: &str = r#"
# Calico
kind: ConfigMap
apiVersion: v1
metadata: {name: calico-config, namespace: kube-system}
data: {typha_service_name: "none", calico_backend: "bird", veth_mtu: "0"}
---
kind: DaemonSet
apiVersion: apps/v1
metadata: {name: calico-node, namespace: kube-system}
spec:
  template:
    spec:
      containers:
        - name: calico-node
          image: quay.io/calico/node:v3.31.2
          env:
            - {name: CALICO_IPV4POOL_IPIP, value: "Always"}
            - name: FELIX_VXLANMTU
              valueFrom: {configMapKeyRef: {name: calico-config, key: veth_mtu}}
          livenessProbe: {exec: {command: [/bin/calico-node, -felix-live, -bird-live]}}
          readinessProbe: {exec: {command: [/bin/calico-node, -felix-ready, -bird-ready]}}
"#;

    fn rendered(sections: &str) -> Vec<serde_json::Value> {
        let cluster = cluster("kubeProxy: {mode: nftables}", sections);
        let images = ["quay.io/calico/node:v3.31.2"];
        let text = with_inputs(&cluster, &images, UPSTREAM, |inputs| {
            file_of(inputs, "node1", "/etc/kubexm/calico.yaml").unwrap()
        });
        serde_saphyr::from_multiple(&text).unwrap()
    }

    #[test]
    fn project_manifest_is_adapted_to_the_cluster() {
        let objects =
            rendered("network: {plugin: calico, podCIDR: 10.1.0.0/16, calico: {mtu: 1400}}");
        let data = &objects[0]["data"];
        assert_eq!(
            (&data["calico_backend"], &data["veth_mtu"]),
            (&"vxlan".into(), &"1400".into())
        );
        let node = &objects[1]["spec"]["template"]["spec"]["containers"][0];
        let variables: Vec<String> = node["env"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| {
                format!(
                    "{}={}",
                    one["name"].as_str().unwrap(),
                    one["value"].as_str().unwrap_or("…")
                )
            })
            .collect();
        assert_eq!(
            variables.join(" "),
            "CALICO_IPV4POOL_IPIP=Never FELIX_VXLANMTU=… \
            CALICO_IPV4POOL_CIDR=10.1.0.0/16 CALICO_IPV4POOL_VXLAN=Always \
            IP_AUTODETECTION_METHOD=kubernetes-internal-ip FELIX_NFTABLESMODE=Enabled"
        );
        let probe = serde_json::json!(["/bin/calico-node", "-felix-ready"]);
        assert_eq!(node["readinessProbe"]["exec"]["command"], probe);
    }

    #[test]
    fn bgp_runs_without_encapsulation() {
        let objects = rendered("network: {plugin: calico, calico: {encapsulation: none}}");
        assert_eq!(objects[0]["data"]["calico_backend"], "bird");
        let node = &objects[1]["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(node["livenessProbe"]["exec"]["command"][2], "-bird-live");
    }
}

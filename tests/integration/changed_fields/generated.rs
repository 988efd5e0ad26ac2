//! What kubeadm generates from its configuration for a node that exists, as far as kubexm compares it
//! (`src/scripts/kubeadm/settings.sh`).

use serde_json::{Value, json};

/// Returns everything in a configuration of `kubeadm init` that changes the files of a scope.
pub fn files(scope: &str, config: &str) -> Value {
    let documents: Vec<Value> = serde_saphyr::from_multiple(config).unwrap();
    let of = |kind: &str| {
        let mut documents = documents.iter();
        documents.find(|one| one["kind"] == kind).cloned().unwrap()
    };
    let (init, cluster) = (of("InitConfiguration"), of("ClusterConfiguration"));
    let patches = &init["patches"];
    match scope {
        "kubelet" => {
            let mut node = init["nodeRegistration"].clone();
            // A join reads the others. The API sets taints on nodes that exist.
            let unused = [
                "taints",
                "ignorePreflightErrors",
                "imagePullPolicy",
                "imagePullSerial",
            ];
            let fields = node.as_object_mut().unwrap();
            fields.retain(|name, _| !unused.contains(&name.as_str()));
            json!([
                of("KubeletConfiguration"),
                node,
                patches,
                cluster["networking"],
                cluster["featureGates"]
            ])
        }
        "control-plane" => {
            let mut api_server = cluster["apiServer"].clone();
            if let Some(fields) = api_server.as_object_mut() {
                // Names are in a certificate, which kubeadm does not replace.
                fields.retain(|name, _| name != "certSANs" && name != "timeoutForControlPlane");
            }
            json!([
                api_server,
                cluster["controllerManager"],
                cluster["scheduler"],
                cluster["networking"],
                cluster["clusterName"],
                cluster["kubernetesVersion"],
                cluster["featureGates"],
                cluster["etcd"]["external"],
                init["localAPIEndpoint"],
                patches
            ])
        }
        "etcd" => {
            let local = &cluster["etcd"]["local"];
            json!([local["extraArgs"], local["dataDir"]])
        }
        other => panic!("the scope {other} is unknown"),
    }
}

#[test]
fn names_in_certificates_change_no_static_pod() {
    let config = |names: &str, flag: &str| {
        format!(
            "kind: InitConfiguration\nnodeRegistration: {{name: a}}\n---\nkind: ClusterConfiguration\n\
             apiServer: {{certSANs: [{names}], extraArgs: [{{name: v, value: '{flag}'}}]}}\n---\n\
             kind: KubeletConfiguration\n"
        )
    };
    let same =
        |one: String, other: String| files("control-plane", &one) == files("control-plane", &other);
    assert!(same(config("a.example", "1"), config("b.example", "1")));
    assert!(!same(config("a.example", "1"), config("a.example", "2")));
}

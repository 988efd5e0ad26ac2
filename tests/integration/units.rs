//! Kubernetes as systemd units: the files of a plan, for every version and shape.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::combinations::{everything, files::unit as judge};
use crate::example::InMemory;
use kubexm_config::Cluster;
use kubexm_deploy::Inputs;
use kubexm_engine::plan::Plan;
use kubexm_types::{HostName, Version};

const MINORS: [u64; 10] = [28, 29, 30, 31, 32, 33, 34, 35, 36, 37];

/// A cluster of node1 to node5 with an external etcd. `more` is set below `kubernetes`.
fn cluster(folder: &Path, version: &Version, control_planes: &str, more: &str) -> Cluster {
    for file in ["ca.crt", "client.crt", "client.key"] {
        std::fs::write(folder.join(file), file).unwrap();
    }
    let folder = folder.display();
    let text = format!(
        "apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {{name: example}}
spec:
  hosts:
    - {{name: node1, address: 192.0.2.11}}
    - {{name: node2, address: 192.0.2.12}}
    - {{name: node3, address: 192.0.2.13}}
    - {{name: node4, address: 192.0.2.14}}
    - {{name: node5, address: 192.0.2.15, labels: {{disk: ssd}}, taints: ['dedicated=db:NoSchedule']}}
  roleGroups: {{control-plane: [{control_planes}], worker: ['node[4:5]'], registry: [node1]}}
  controlPlaneEndpoint: {{domain: api.example, address: 192.0.2.10, port: 6443}}
  highAvailability: {{type: external}}
  network: {{plugin: none}}
  kubernetes:
    version: v{version}
    type: systemd
{more}
  etcd:
    type: external
    external: {{endpoints: ['https://192.0.2.20:2379'], caFile: {folder}/ca.crt,
      certFile: {folder}/client.crt, keyFile: {folder}/client.key}}
"
    );
    kubexm_config::parse_cluster("example", &text).unwrap()
}

fn plan(cluster: &Cluster) -> Plan {
    let lock = everything::lock(std::slice::from_ref(&cluster.kubernetes.version));
    let inputs = Inputs::assumed(cluster, &lock, Arc::new(InMemory::default()));
    kubexm_deploy::plan(&inputs).unwrap().plan
}

/// Returns the text of each file by its path, for each host.
fn files(plan: &Plan) -> BTreeMap<String, BTreeMap<String, String>> {
    let text = |host: (HostName, Vec<kubexm_engine::plan::RenderedFile>)| {
        let files = host.1.into_iter();
        let files = files.map(|file| (file.path.to_string(), file.content));
        (host.0.to_string(), files.collect())
    };
    kubexm_deploy::rendered(plan)
        .into_iter()
        .map(text)
        .collect()
}

/// Returns the flags of a unit's command.
fn flags(unit: &str) -> BTreeMap<&str, &str> {
    let lines = unit.lines().map(|line| line.trim().trim_end_matches(" \\"));
    let flags = lines.filter_map(|line| line.trim_matches('"').strip_prefix("--"));
    flags.map(|flag| flag.split_once('=').unwrap()).collect()
}

#[test]
fn every_version_and_shape_is_rendered_completely() {
    let folder = tempfile::tempdir().unwrap();
    for minor in MINORS {
        let version = Version::new(1, minor, 3);
        for control_planes in ["node1", "node1, node2, node3"] {
            let cluster = cluster(folder.path(), &version, control_planes, "");
            for (host, files) in files(&plan(&cluster)) {
                let yaml = files.iter().filter(|(path, _)| path.ends_with(".yaml"));
                for (path, text) in yaml.filter(|(_, text)| !text.contains("<secret>")) {
                    let documents: Result<Vec<serde_json::Value>, _> =
                        serde_saphyr::from_multiple(text);
                    assert!(documents.is_ok(), "{host}{path}: {documents:?}\n{text}");
                }
                let is_control_plane = control_planes.contains(&host);
                let has = |path: &str| files.contains_key(path);
                assert_eq!(
                    has("/etc/kubernetes/pki/ca.key"),
                    is_control_plane,
                    "{host}"
                );
                assert_eq!(
                    has("/etc/kubernetes/admin.conf"),
                    is_control_plane,
                    "{host}"
                );
                let unit = "/etc/systemd/system/kube-apiserver.service";
                assert_eq!(has(unit), is_control_plane, "{host}");
                let is_node = is_control_plane || ["node4", "node5"].contains(&host.as_str());
                let unit = "/etc/systemd/system/kubelet.service";
                assert_eq!(has(unit), is_node, "{host}");
                for (path, text) in &files {
                    assert!(!text.contains("<key of"), "{host}{path} shows a key");
                }
            }
        }
    }
    let cluster = cluster(folder.path(), &Version::new(1, 36, 3), "node1", "");
    let files = files(&plan(&cluster));
    for host in ["node1", "node5"] {
        for (path, unit) in files[host]
            .iter()
            .filter(|(path, _)| path.contains("/kube"))
        {
            if path.starts_with("/etc/systemd/system/") {
                assert_eq!(judge(path, unit), None, "{path}");
            }
        }
    }
}

#[test]
fn settings_of_the_user_override_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let more = "    apiServer: {extraArgs: {audit-log-maxage: '7', v: '2'}, featureGates: {A: true, B: false}}
    controllerManager: {extraArgs: {node-cidr-mask-size: '25'}}
    scheduler: {extraArgs: {v: '3'}}
    kubelet: {extraArgs: {v: '4'}, extraConfig: {maxPods: 200}, featureGates: {C: true}}
    kubeProxy: {mode: nftables, extraConfig: {conntrack: {min: 0}}}";
    let version = Version::new(1, 36, 3);
    let cluster = cluster(folder.path(), &version, "node1", more);
    let files = files(&plan(&cluster));
    let unit = |host: &str, name: &str| {
        files[host][&format!("/etc/systemd/system/{name}.service")].clone()
    };
    let api_server = unit("node1", "kube-apiserver");
    let api_server = flags(&api_server);
    assert_eq!(api_server["audit-log-maxage"], "7");
    assert_eq!(api_server["feature-gates"], "A=true,B=false");
    assert_eq!(api_server["etcd-servers"], "https://192.0.2.20:2379");
    assert_eq!(api_server["advertise-address"], "192.0.2.11");
    assert_eq!(
        flags(&unit("node1", "kube-controller-manager"))["node-cidr-mask-size"],
        "25"
    );
    assert_eq!(flags(&unit("node1", "kube-scheduler"))["v"], "3");
    assert_eq!(flags(&unit("node5", "kubelet"))["node-ip"], "192.0.2.15");
    let yaml = |host: &str, path: &str| -> serde_json::Value {
        serde_saphyr::from_str(&files[host][path]).unwrap()
    };
    let kubelet = yaml("node5", "/var/lib/kubelet/config.yaml");
    assert_eq!(kubelet["maxPods"], 200);
    assert_eq!(kubelet["featureGates"]["C"], true);
    assert_eq!(kubelet["serverTLSBootstrap"], true);
    assert_eq!(kubelet["registerWithTaints"][0]["key"], "dedicated");
    let control_plane = yaml("node1", "/var/lib/kubelet/config.yaml");
    let taint = &control_plane["registerWithTaints"][0]["key"];
    assert_eq!(*taint, "node-role.kubernetes.io/control-plane");
    let proxy = yaml("node4", "/etc/kubernetes/kube-proxy.yaml");
    assert_eq!(proxy["mode"], "nftables");
    assert_eq!(proxy["conntrack"]["min"], 0);
    assert_eq!(proxy["hostnameOverride"], "node4");
}

/// A change that restarts API servers restarts one at a time; workers follow when an API server answers.
#[test]
fn control_planes_are_installed_one_after_another() {
    let folder = tempfile::tempdir().unwrap();
    let version = Version::new(1, 36, 3);
    let cluster = cluster(folder.path(), &version, "node1, node2, node3", "");
    let plan = plan(&cluster);
    let after = |id: &str| -> BTreeSet<String> {
        let task = plan.tasks.iter().find(|task| task.id().0 == id).unwrap();
        task.after.iter().map(|id| id.0.clone()).collect()
    };
    assert!(after("control-plane/join@node2").contains("control-plane/init@node1"));
    assert!(after("control-plane/join@node3").contains("control-plane/join@node2"));
    assert!(after("worker/join@node5").contains("control-plane/init@node1"));
    let all = [
        "control-plane/init@node1",
        "control-plane/join@node3",
        "worker/join@node4",
    ];
    for id in all {
        assert!(after("nodes/admit@node1").contains(id), "{id}");
    }
    assert!(after("cluster/ready@node1").contains("nodes/admit@node1"));
}

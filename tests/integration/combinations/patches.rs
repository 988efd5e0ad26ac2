//! Patches of what kubeadm writes: each reaches the hosts that it names, and the real kubeadm accepts it or
//! refuses it before kubexm changes a host.

use std::sync::Arc;

use kubexm_bundle::Blobs;
use kubexm_config::{Cluster, parse_cluster};
use kubexm_deploy::completeness::{KubeadmPatches, check};
use kubexm_fetch::Cache;
use kubexm_fetch::kubeadm::Kubeadm;
use kubexm_sandbox::Sandbox;
use kubexm_types::Version;

use super::programs::Programs;
use super::{everything, rendered};
use crate::example::InMemory;

const PATCHES: &str = "
        - {target: kube-apiserver, patch: {metadata: {annotations: {example.com/by: us}}}}
        - target: kube-apiserver
          type: json
          patch: [{op: replace, path: /spec/containers/0/resources/requests/cpu, value: 300m}]
        - {target: kube-controller-manager, patch: {metadata: {labels: {by: us}}}}
        - {target: kube-scheduler, type: merge, patch: {metadata: {labels: {by: us}}}, hosts: [node2]}
        - {target: etcd, patch: {metadata: {labels: {by: us}}}}
        - {target: kubeletconfiguration, patch: {maxPods: 42}, hosts: [\"node[2:4]\"]}
";

fn cluster(version: &Version, patches: &str) -> Cluster {
    let hosts: String = (1..=4)
        .map(|n| format!("    - {{name: node{n}, address: 192.0.2.1{n}}}\n"))
        .collect();
    let yaml = format!(
        "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: demo}}\nspec:\n  hosts:\n{hosts}  \
         roleGroups: {{control-plane: [\"node[1:3]\"], worker: [node4]}}\n  highAvailability: {{type: haproxy}}\n  \
         kubernetes:\n    version: v{version}\n    kubeadm:\n      patches:{patches}"
    );
    parse_cluster("cluster.yaml", &yaml).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Returns the patches that kubeadm has to try, and the findings that need no kubeadm.
fn proof(version: &Version, patches: &str) -> (Vec<KubeadmPatches>, Vec<String>) {
    let lock = everything::lock(std::slice::from_ref(version));
    let blobs: Arc<dyn Blobs> = Arc::new(InMemory::default());
    let report = check(&cluster(version, patches), &lock, &blobs).unwrap();
    (report.patches, report.findings)
}

#[test]
fn patches_are_rendered_on_the_hosts_that_they_name() {
    let version = Version::new(1, 36, 3);
    let lock = everything::lock(std::slice::from_ref(&version));
    let blobs: Arc<dyn Blobs> = Arc::new(InMemory::default());
    let files = rendered(&cluster(&version, PATCHES), &lock, &blobs);
    let count = |name: &str| {
        let path = format!("/etc/kubexm/patches/{name}");
        files
            .iter()
            .filter(|file| file.path.as_str() == path)
            .count()
    };
    for (name, hosts) in [
        ("kube-apiserver-0000+strategic.json", 3),
        ("kube-apiserver-0001+json.json", 3),
        ("kube-controller-manager-0002+strategic.json", 3),
        ("kube-scheduler-0003+merge.json", 1),
        ("etcd-0004+strategic.json", 3),
        ("kubeletconfiguration-0005+strategic.json", 3),
    ] {
        assert_eq!(count(name), hosts, "{name}");
    }
    let configured = files
        .iter()
        .filter(|file| file.content.contains("directory: \"/etc/kubexm/patches\""));
    assert_eq!(configured.count(), 4);
    let without = rendered(&cluster(&version, " []\n"), &lock, &blobs);
    assert!(without.iter().all(|file| !file.content.contains("patches")));
}

#[test]
fn image_that_only_a_patch_names_must_be_in_the_bundle() {
    let sidecar = "
        - target: kube-apiserver
          patch: {spec: {containers: [{name: sidecar, image: \"registry.example/sidecar:1\"}]}}
";
    let (_, findings) = proof(&Version::new(1, 36, 3), sidecar);
    assert!(
        findings
            .iter()
            .any(|finding| finding
                .contains("the image registry.example/sidecar:1 is not in the bundle")),
        "{findings:?}"
    );
}

#[tokio::test]
#[ignore = "needs the programs that tests/lab/upstream/build makes"]
async fn kubeadm_1_36_refuses_wrong_patches_at_build_time() {
    assert_kubeadm_judges_patches(Version::new(1, 36, 3)).await;
}

#[tokio::test]
#[ignore = "needs the programs that tests/lab/upstream/build --all makes"]
async fn kubeadm_1_30_refuses_wrong_patches_at_build_time() {
    assert_kubeadm_judges_patches(Version::new(1, 30, 4)).await;
}

async fn unpacked(programs: &Programs, version: &Version) -> Kubeadm {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path()).unwrap();
    let digest = cache.insert(&std::fs::read(programs.kubeadm()).unwrap());
    let launcher = env!("CARGO_BIN_EXE_kubexm").into();
    let sandbox = Sandbox::On { launcher };
    let unpacked = Kubeadm::unpack(cache, digest.unwrap(), version.clone(), sandbox);
    unpacked.await.unwrap()
}

#[tokio::test]
#[ignore = "needs the programs that tests/lab/upstream/build makes"]
async fn kubeadm_in_the_sandbox_reports_images_and_the_oldest_etcd() {
    let version = Version::new(1, 36, 3);
    let kubeadm = unpacked(&Programs::of("1.36.3"), &version).await;
    let facts = kubeadm.facts().await.unwrap();
    let names: Vec<String> = facts.images.iter().map(ToString::to_string).collect();
    assert!(
        names.contains(&"registry.k8s.io/kube-apiserver:v1.36.3".to_owned()),
        "{names:?}"
    );
    assert_eq!(facts.minimum_etcd, Some(Version::new(3, 5, 24)));
}

async fn assert_kubeadm_judges_patches(version: Version) {
    let programs = Programs::of(&version.to_string());
    let kubeadm = unpacked(&programs, &version).await;
    let mut complaints = Vec::new();
    for (patches, expected) in [
        (PATCHES, None),
        (
            "\n        - {target: kube-scheduler, type: json, patch: [{op: remove, path: /spec/nothing}]}\n",
            Some("kube-scheduler"),
        ),
        (
            "\n        - {target: kube-controller-manager, patch: {spec: {containers: [{image: x}]}}}\n",
            Some("does not contain declared merge key: name"),
        ),
        (
            "\n        - {target: etcd, patch: {spec: {hostNetwork: maybe}}}\n",
            Some("hostNetwork"),
        ),
        (
            "\n        - {target: kubeletconfiguration, patch: {maxPodz: 42}}\n",
            Some("unknown field \"maxPodz\""),
        ),
        (
            "\n        - {target: kubeletconfiguration, type: merge, patch: {maxPods: many}}\n",
            Some("maxPods"),
        ),
    ] {
        let (tries, _) = proof(&version, patches);
        assert!(!tries.is_empty(), "{patches}");
        for given in tries {
            let judged = kubeadm.apply(&given.config, given.folder, &given.files);
            match (judged.await.unwrap(), expected) {
                (Ok(()), None) => {}
                (Err(error), Some(expected)) if error.contains(expected) => {}
                (judged, _) => complaints.push(format!("{}{patches}{judged:?}", given.title)),
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[tokio::test]
#[ignore = "needs the programs that tests/lab/upstream/build makes"]
async fn kubeadm_refuses_wrong_patches_of_coredns() {
    let version = Version::new(1, 36, 3);
    let programs = Programs::of("1.36.3");
    let kubeadm = unpacked(&programs, &version).await;
    for (patch, taken) in [
        ("{spec: {template: {metadata: {labels: {by: us}}}}}", true),
        (
            "{spec: {template: {spec: {containers: [{image: x}]}}}}",
            false,
        ),
    ] {
        let patches = format!("\n        - {{target: corednsdeployment, patch: {patch}}}\n");
        let (tries, _) = proof(&version, &patches);
        let given = &tries[0];
        let judged = kubeadm.apply(&given.config, given.folder, &given.files);
        assert_eq!(judged.await.unwrap().is_ok(), taken, "{patch}");
    }
}

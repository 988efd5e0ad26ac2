//! What the cluster stores, and when kube-proxy restarts or gets its former settings back.

use serde_json::{Value, json};

use super::*;
use crate::fake_host::{FakeApi, apply};

fn step(is_new: bool) -> StoredSettings {
    StoredSettings {
        digest: "d1".to_owned(),
        proxy_digest: "p1".to_owned(),
        config: "c".to_owned(),
        is_new,
    }
}

fn map(mark: &str, config: &str) -> Value {
    json!({"metadata": {"annotations": {MARK: mark}}, "data": {PROXY_CONFIG: config}})
}

/// Returns a DaemonSet of three nodes, of which so many have started and are ready.
fn rollout(updated: u32, available: u32) -> Value {
    json!({
        "metadata": {"name": "kube-proxy", "generation": 2},
        "status": {
            "observedGeneration": 2, "desiredNumberScheduled": 3,
            "updatedNumberScheduled": updated, "numberAvailable": available,
        },
    })
}

/// Returns an API: the marks of the ConfigMaps, the configurations of kube-proxy one after another, and its rollouts.
fn api(
    nodes: &str,
    proxy: &str,
    configs: &[&str],
    rollouts: impl IntoIterator<Item = Value>,
) -> FakeApi {
    let of_nodes = [
        ("configmap kubeadm-config", map(nodes, "")),
        ("configmap kubelet-config", map(nodes, "")),
    ];
    let configs = configs.iter();
    let of_proxy = configs.map(|config| ("configmap kube-proxy", map(proxy, config)));
    let rollouts = rollouts.into_iter();
    let rollouts = rollouts.map(|rollout| ("daemonset kube-proxy", rollout));
    FakeApi::new(of_nodes.into_iter().chain(of_proxy).chain(rollouts))
}

/// Returns the changes without the question whether a change was interrupted.
fn changes(host: &FakeApi) -> Vec<String> {
    let changes = host.changes().into_iter();
    changes
        .filter(|change| change != "began config=c")
        .collect()
}

fn marked(name: &str, digest: &str) -> String {
    let fields = json!({"metadata": {"annotations": {MARK: digest}}});
    format!("configmap {name} -n kube-system --patch {fields}")
}

const RESTART: &str = "restart daemonset kube-proxy -n kube-system";

#[tokio::test(start_paused = true)]
async fn marks_decide_what_changes() {
    let check = async |nodes, proxy| {
        let host = api(nodes, proxy, &["a"], [rollout(3, 3)]);
        step(false).check(&host).await.unwrap()
    };
    assert_eq!(check("d1", "p1").await, Check::Satisfied);
    let other = "the ConfigMap kubeadm-config has other settings";
    assert_eq!(check("d0", "p1").await, Check::needed(other));
    let other = "kube-proxy has other settings";
    assert_eq!(check("d1", "p0").await, Check::needed(other));
    // A cluster without kube-proxy.
    let none = api("d1", "", &[], []);
    assert_eq!(step(false).check(&none).await.unwrap(), Check::Satisfied);
    let found = step(false).check(&FakeApi::without_cluster()).await;
    assert!(matches!(found, Ok(Check::Needed { .. })), "{found:?}");
    assert!(step(false).check(&FakeApi::silent()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn new_cluster_is_only_marked() {
    let host = api("", "", &["a"], [rollout(3, 3)]);
    apply(&step(true), &host).await.unwrap();
    let expected = [
        ("kubeadm-config", "d1"),
        ("kubelet-config", "d1"),
        ("kube-proxy", "p1"),
    ];
    assert_eq!(
        changes(&host),
        expected.map(|(name, digest)| marked(name, digest))
    );
}

#[tokio::test(start_paused = true)]
async fn kube_proxy_restarts_if_its_configuration_differs() {
    let run = async |configs: &[&str], rollouts: [Value; 3]| {
        let host = api("d0", "p0", configs, rollouts);
        apply(&step(false), &host).await.unwrap();
        changes(&host)
    };
    let [of_config, of_kubelet] = [
        marked("kubeadm-config", "d1"),
        marked("kubelet-config", "d1"),
    ];
    let of_proxy = marked("kube-proxy", "p1");
    let stored = ["store config=c", &*of_config, &*of_kubelet];
    let found = run(
        &["old", "old", "new"],
        [rollout(3, 3), rollout(1, 2), rollout(3, 3)],
    );
    let expected = [
        "keep config=c",
        "proxy config=c",
        RESTART,
        &*of_proxy,
        "done config=c",
    ];
    assert_eq!(found.await, [&expected[..], &stored[..]].concat());
    let found = run(&["old"], [1, 2, 3].map(|count| rollout(count, count)));
    let expected = [
        "keep config=c",
        "proxy config=c",
        &*of_proxy,
        "done config=c",
    ];
    assert_eq!(found.await, [&expected[..], &stored[..]].concat());
}

#[tokio::test(start_paused = true)]
async fn kube_proxy_that_does_not_become_ready_gets_its_former_settings_back() {
    let host = api("d0", "p0", &["old", "old", "new"], [rollout(1, 2)]);
    let error = apply(&step(false), &host).await.unwrap_err();
    let expected = "kube-proxy restarts: 1 of 3 nodes have started it, and it is ready on 2\n\
                    kube-proxy does not become ready with its new settings, so it has its former ones again";
    assert!(error.starts_with(expected), "{error}");
    assert!(error.contains(HINT), "{error}");
    let expected = [
        "keep config=c",
        "proxy config=c",
        RESTART,
        "back config=c",
        RESTART,
        "drop config=c",
    ];
    assert_eq!(changes(&host), expected);
}

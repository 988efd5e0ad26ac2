use super::*;
use serde_json::{Value, json};

const METRICS: &str = "\
apiserver_requested_deprecated_apis{group=\"example.k8s.io\",removed_release=\"1.36\",resource=\"things\",subresource=\"\",version=\"v1beta1\"} 1
apiserver_requested_deprecated_apis{group=\"\",removed_release=\"1.40\",resource=\"others\",subresource=\"\",version=\"v1\"} 1
apiserver_requested_deprecated_apis{group=\"\",removed_release=\"\",resource=\"endpoints\",subresource=\"\",version=\"v1\"} 1
apiserver_requested_deprecated_apis{group=\"\",removed_release=\"1.40\",resource=\"others\",subresource=\"\",version=\"v1\"} 1
";

fn named(kind: &str, name: &str, mut more: Value) -> Value {
    more["kind"] = kind.into();
    more["metadata"]["name"] = name.into();
    more["metadata"]["namespace"] = "default".into();
    more
}

fn node(name: &str, version: &str, ready: &str) -> Value {
    let conditions = json!([
        {"type": "DiskPressure", "status": "False"},
        {"type": "Ready", "status": ready},
    ]);
    let info = json!({"kubeletVersion": version});
    named(
        "Node",
        name,
        json!({"status": {"nodeInfo": info, "conditions": conditions}}),
    )
}

fn budget(name: &str, permitted: u8, pods: u8) -> Value {
    let status = json!({"disruptionsAllowed": permitted, "expectedPods": pods});
    named("PodDisruptionBudget", name, json!({"status": status}))
}

fn pod(name: &str, node: &str, owner: Value, phase: &str) -> Value {
    let spec = if node.is_empty() {
        json!({})
    } else {
        json!({"nodeName": node})
    };
    let fields =
        json!({"metadata": {"ownerReferences": owner}, "spec": spec, "status": {"phase": phase}});
    named("Pod", name, fields)
}

fn volume(name: &str, phase: &str, terms: &[&[(&str, &str, &[&str])]]) -> Value {
    let expression = |(key, operator, values): &(&str, &str, &[&str])| json!({"key": key, "operator": operator, "values": values});
    let term = |term: &&[(&str, &str, &[&str])]| json!({"matchExpressions": term.iter().map(expression).collect::<Vec<_>>()});
    let terms: Vec<Value> = terms.iter().map(term).collect();
    let affinity = json!({"required": {"nodeSelectorTerms": terms}});
    let spec = if terms.is_empty() {
        json!({})
    } else {
        json!({"nodeAffinity": affinity})
    };
    named(
        "PersistentVolume",
        name,
        json!({"spec": spec, "status": {"phase": phase}}),
    )
}

fn webhook(kind: &str, name: &str, policy: &str, service: Option<&str>) -> Value {
    let config = match service {
        Some(service) => json!({"service": {"namespace": "default", "name": service}}),
        None => json!({"url": "https://192.0.2.1"}),
    };
    let webhooks = json!([{"name": name, "failurePolicy": policy, "clientConfig": config}]);
    named(kind, name, json!({"webhooks": webhooks}))
}

fn slice(service: &str, ready: Value) -> Value {
    let labels = json!({"kubernetes.io/service-name": service});
    let fields =
        json!({"metadata": {"labels": labels}, "endpoints": [{"conditions": {"ready": ready}}]});
    named("EndpointSlice", service, fields)
}

fn workload(kind: &str, init: &[&str], images: &[&str]) -> Value {
    let of = |images: &[&str]| {
        images
            .iter()
            .map(|image| json!({"image": image}))
            .collect::<Vec<_>>()
    };
    let spec = json!({"initContainers": of(init), "containers": of(images)});
    named(
        kind,
        "workload",
        json!({"spec": {"template": {"spec": spec}}}),
    )
}

fn role(kind: &str, name: &str, rules: Value) -> Value {
    named(kind, name, json!({"rules": rules}))
}

fn cluster() -> Vec<Value> {
    const HOST: &str = "kubernetes.io/hostname";
    let controlled = json!([{"kind": "ReplicaSet", "controller": true}]);
    vec![
        node("node1", "v1.35.4", "True"),
        node("node2", "v1.34.4", "Unknown"),
        named("CertificateSigningRequest", "csr-1", json!({"status": {}})),
        named(
            "CertificateSigningRequest",
            "csr-2",
            json!({"status": {"conditions": [{"type": "Approved", "status": "True"}]}}),
        ),
        budget("web", 0, 3),
        budget("none", 0, 0),
        budget("fine", 1, 3),
        pod("shell", "node2", json!([]), "Running"),
        pod("owned", "node2", json!([{"kind": "Thing"}]), "Running"),
        pod("done", "node2", json!([]), "Succeeded"),
        pod("web-1", "node1", controlled, "Running"),
        pod("new", "", json!([]), "Pending"),
        volume("pv-1", "Bound", &[&[(HOST, "In", &["node2"])]]),
        volume("pv-2", "Bound", &[]),
        volume("pv-3", "Available", &[&[(HOST, "In", &["node2"])]]),
        volume("pv-4", "Bound", &[&[(HOST, "In", &["node1", "node2"])]]),
        volume("pv-5", "Bound", &[&[(HOST, "NotIn", &["node2"])]]),
        volume(
            "pv-6",
            "Bound",
            &[&[(HOST, "In", &["node2"])], &[("zone", "In", &["z"])]],
        ),
        volume(
            "pv-7",
            "Bound",
            &[&[(HOST, "In", &["node1"]), (HOST, "NotIn", &["node2"])]],
        ),
        webhook(
            "ValidatingWebhookConfiguration",
            "policy.example.com",
            "Fail",
            Some("server"),
        ),
        webhook(
            "ValidatingWebhookConfiguration",
            "url.example.com",
            "Fail",
            None,
        ),
        webhook(
            "MutatingWebhookConfiguration",
            "ignored.example.com",
            "Ignore",
            Some("server"),
        ),
        webhook(
            "MutatingWebhookConfiguration",
            "fine.example.com",
            "Fail",
            Some("injector"),
        ),
        slice("injector", json!(true)),
        slice("server", json!(false)),
        named("EndpointSlice", "empty", json!({"endpoints": null})),
        workload("DaemonSet", &["ghcr.io/a/c:v1"], &["ghcr.io/a/b:v1"]),
        workload("Deployment", &[], &["ghcr.io/a/b:v1", "A:B:C"]),
        role(
            "ClusterRole",
            "debug",
            json!([{"resources": ["pods/exec"], "verbs": ["get"]}]),
        ),
        role(
            "ClusterRole",
            "edit",
            json!([
                {"resources": ["pods/exec", "pods/log"], "verbs": ["get", "list"]},
                {"resources": ["pods/exec"], "verbs": ["create"]},
            ]),
        ),
        role(
            "Role",
            "read",
            json!([{"resources": ["pods"], "verbs": ["get"]}]),
        ),
        role(
            "Role",
            "attach",
            json!([{"resources": ["pods/attach"], "verbs": ["get"]}]),
        ),
        role("ClusterRole", "empty", Value::Null),
    ]
}

fn read(objects: Vec<Value>) -> Result<Survey, String> {
    let objects = objects
        .into_iter()
        .map(|object| serde_json::from_value(object).unwrap());
    Survey::of(objects.collect())
}

fn survey() -> Survey {
    let mut survey = read(cluster()).unwrap();
    survey.deprecated = deprecated(METRICS);
    survey
}

#[test]
fn objects_that_an_upgrade_depends_on_are_found() {
    let survey = survey();
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        let pairs = pairs.iter();
        pairs
            .map(|(one, other)| ((*one).to_owned(), (*other).to_owned()))
            .collect()
    };
    assert_eq!(survey.requests, ["csr-1"]);
    assert_eq!(survey.budgets, ["default/web"]);
    let unmanaged = [("node2", "default/shell"), ("node2", "default/owned")];
    assert_eq!(survey.unmanaged, pairs(&unmanaged));
    assert_eq!(survey.local, pairs(&[("node2", "pv-1"), ("node1", "pv-7")]));
    let webhooks = [("validatingwebhook/policy.example.com", "default/server")];
    assert_eq!(survey.webhooks, pairs(&webhooks));
    let deprecated = [
        ("1.36", "things.example.k8s.io/v1beta1"),
        ("1.40", "others/v1"),
    ];
    assert_eq!(survey.deprecated, pairs(&deprecated));
    let streams = ["ClusterRole/debug", "Role/default/attach"];
    assert_eq!(survey.streams, streams);
}

fn found(permitted: Permitted, continues: bool) -> Vec<(String, bool)> {
    let survey = survey();
    let version = "1.36.3".parse().unwrap();
    let findings = survey.findings(&"node1".parse().unwrap(), &version, permitted, continues);
    let short = |finding: Finding| (finding.what.chars().take(24).collect(), finding.fatal);
    findings.into_iter().map(short).collect()
}

#[test]
fn what_stops_an_upgrade_halfway_is_found_before_it() {
    let found = found(Permitted::default(), false);
    let expected = [
        ("the node is not Ready", true),
        ("these PodDisruptionBudge", true),
        ("nothing creates these po", true),
        ("these webhooks refuse re", true),
        ("these certificate signin", false),
        ("since Kubernetes 1.35, t", false),
        ("clients have requested r", false),
    ];
    let expected = expected.map(|(what, fatal)| (what.to_owned(), fatal));
    assert_eq!(found, expected);
}

#[test]
fn what_the_user_permits_is_a_warning() {
    let permitted = Permitted {
        deletes_unmanaged: true,
        ignores_budgets: true,
    };
    let fatal = found(permitted, true);
    let fatal: Vec<_> = fatal.iter().filter(|(_, fatal)| *fatal).collect();
    // The drain of an interrupted run may have ended the pods of a webhook.
    assert!(fatal.is_empty(), "{fatal:?}");
    let fatal = found(permitted, false);
    let fatal: Vec<_> = fatal.iter().filter(|(_, fatal)| *fatal).collect();
    assert_eq!(fatal.len(), 2, "{fatal:?}");
}

#[test]
fn node_with_an_unknown_version_is_refused() {
    let said = read(vec![node("node1", "x", "True")]).unwrap_err();
    assert!(said.starts_with("the node node1: "), "{said}");
    assert!(read(vec![node("1 2", "v1.36.3", "True")]).is_err());
    let node = &survey().nodes[&"node2".parse::<HostName>().unwrap()];
    assert!(!node.is_ready);
    assert_eq!(node.kubelet.to_string(), "1.34.4");
}

#[test]
fn changed_images_have_both_tags() {
    let new = ["ghcr.io/a/b:v2", "ghcr.io/a/c:v1", "ghcr.io/a/d:v1"];
    let new = new.map(|name| ImageRef::parse(name).unwrap());
    assert_eq!(survey().changed_images(&new), ["ghcr.io/a/b v1 -> v2"]);
}

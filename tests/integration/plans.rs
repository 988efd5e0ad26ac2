//! Plans as documents: reproducible, without secrets, and as the schema describes them. Plans compared with
//! hosts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kubexm_bundle::Blobs;
use kubexm_config::parse_cluster;
use kubexm_deploy::Inputs;
use kubexm_engine::plan::diff::diff;
use kubexm_engine::plan::document::PlanDocument;
use kubexm_engine::plan::{About, Plan, Task, TaskValue};
use kubexm_engine::steps::{Content, ProvideValue, RunScript, WaitFor, WriteFile};
use kubexm_types::{Digest, Version};
use serde_json::Value;

use crate::combinations::everything;
use crate::example::InMemory;
use crate::sandbox::{Sandbox, path};

const CLUSTER: &str = "
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {name: planned}
spec:
  hosts:
  - {name: node1, address: 192.0.2.11}
  - {name: node2, address: 192.0.2.12}
  - {name: node3, address: 192.0.2.13}
  roleGroups:
    control-plane: [node1, node2]
    worker: [node3]
    registry: [node1]
  kubernetes: {version: 1.36.3}
  network: {plugin: bridge}
  highAvailability: {type: haproxy}
";
const KEY: &str = "-----BEGIN PRIVATE KEY----- of the registry";

fn planned() -> String {
    let cluster = parse_cluster("planned", CLUSTER).unwrap();
    let lock = everything::lock(&[Version::new(1, 36, 3)]);
    let blobs: Arc<dyn Blobs> = Arc::new(InMemory::default());
    let mut inputs = Inputs::assumed(&cluster, &lock, blobs);
    inputs.certificates.registry.key = KEY.to_owned();
    let plan = kubexm_deploy::plan(&inputs).unwrap().plan;
    PlanDocument::new(&plan).unwrap().to_json().unwrap()
}

#[test]
fn same_inputs_give_the_same_plan_bytes() {
    let first = planned();
    assert!(first.contains("\"control-plane/secrets@node1\""), "{first}");
    assert_eq!(planned(), first);
    let read: PlanDocument = serde_json::from_str(&first).unwrap();
    assert_eq!(read.to_json().unwrap(), first);
}

/// As systemd units, the API server answers at its own address before kube-vip runs, and kube-vip before any other node
/// joins.
#[test]
fn endpoint_of_kube_vip_is_asked_for_after_its_pod() {
    let text = CLUSTER.replace("{type: haproxy}", "{type: kube-vip}")
        + "  controlPlaneEndpoint: 192.0.2.10\n  etcd: {type: systemd}\n";
    let text = text.replace("version: 1.36.3", "version: 1.36.3, type: systemd");
    let cluster = parse_cluster("planned", &text).unwrap();
    let lock = everything::lock(&[Version::new(1, 36, 3)]);
    let inputs = Inputs::assumed(&cluster, &lock, Arc::new(InMemory::default()));
    let plan = kubexm_deploy::plan(&inputs).unwrap().plan;
    let task = |id: &str| {
        let mut tasks = plan.tasks.iter();
        tasks.find(|task| task.id().0 == id).unwrap()
    };
    let init = task("control-plane/init@node1");
    let steps: Vec<String> = init.steps.iter().map(|step| step.describe()).collect();
    let place = |part: &str| {
        let mut steps = steps.iter();
        let place = steps.position(|step| step.contains(part));
        place.unwrap_or_else(|| panic!("{part}: {steps:#?}"))
    };
    let order = [
        "this API server is ready",
        "Apply role bindings",
        "kubelet.service",
        "/etc/kubernetes/kube-vip.conf",
        "/etc/kubernetes/manifests/kube-vip.yaml",
        "the endpoint answers through kube-vip",
    ];
    assert!(order.map(place).is_sorted(), "{steps:#?}");
    assert!(!steps.iter().any(|step| step.contains("answers at https")));
    for other in ["control-plane/join@node2", "worker/join@node3"] {
        let after = &task(other).after;
        assert!(after.contains(&init.id()), "{other}: {after:?}");
    }
}

#[test]
fn plan_has_no_secret_and_no_digest_of_a_secret() {
    let text = planned();
    let plan: PlanDocument = serde_json::from_str(&text).unwrap();
    let steps = plan.tasks.iter().flat_map(|task| &task.steps);
    let files: Vec<_> = steps.flat_map(|step| &step.files).collect();
    let file = |path: &str| {
        let mut files = files.iter();
        files.find(|file| file.path.as_str() == path).unwrap()
    };
    // The digest of a public file is in the plan, so the absence of the others means something.
    assert!(file("/etc/kubexm/registry/config.yml").digest.is_some());
    for absent in [
        "/etc/kubexm/registry/tls.key",
        "/run/kubexm/secrets-XXXXXX",
        "/run/kubexm/kubeadm-join.yaml",
        "/etc/cni/net.d/10-kubexm-bridge.conflist",
    ] {
        assert_eq!(file(absent).digest, None, "{absent}");
    }
    for secret in [KEY.to_owned(), Digest::of(KEY.as_bytes()).hex()] {
        assert!(!text.contains(&secret), "{secret}");
    }
}

/// Returns the differences of a document and a schema: unknown and missing fields, and values of another
/// type.
fn differences(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let fits = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        _ => match schema["enum"].as_array() {
            Some(printed) => printed.contains(value),
            None => schema["const"] == *value,
        },
    };
    if !fits {
        found.push(format!("{path}: {value}"));
    }
    for (name, inner) in value.as_object().into_iter().flatten() {
        match schema["properties"].get(name) {
            Some(schema) => differences(schema, inner, &format!("{path}.{name}"), found),
            None => found.push(format!("{path}.{name}: unknown")),
        }
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.get(name.as_str().unwrap()).is_none() {
            found.push(format!("{path}: {name} is missing"));
        }
    }
    for inner in value.as_array().into_iter().flatten() {
        differences(&schema["items"], inner, path, found);
    }
}

#[test]
fn plan_matches_its_schema() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../manifests/schema/plan.json"
    );
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut plan: Value = serde_json::from_str(&planned()).unwrap();
    let mut found = Vec::new();
    differences(&schema, &plan, "", &mut found);
    assert!(found.is_empty(), "{found:#?}");
    plan["planVersion"] = 2.into();
    plan["tasks"][0]["steps"][0]["kind"] = "other".into();
    plan["tasks"][0].as_object_mut().unwrap().remove("after");
    differences(&schema, &plan, "", &mut found);
    assert_eq!(found.len(), 3, "{found:#?}");
}

/// A file whose text is a value of another task.
fn file_of(value: &TaskValue<String>, at: &str) -> WriteFile {
    let value = value.clone();
    let mut file = WriteFile::new(path(at), "");
    file.content = Content::Deferred {
        preview: "<value>".to_owned(),
        render: Arc::new(move || value.require().cloned()),
    };
    file
}

#[tokio::test]
async fn plan_diff_runs_only_checks() {
    let host = Sandbox::new();
    host.write("/etc/app/kept", "same");
    host.set_mode("/etc/app/kept", 0o644);
    host.write("/etc/app/changed", "old");
    let original = host.listing();
    let name = host.host.name().clone();
    let value = TaskValue::new("app.value");
    let ask = Task::new("app", "ask", &name).step(ProvideValue {
        title: "Ask for the value".to_owned(),
        script: ": >/root/asked".into(),
        arguments: Vec::new(),
        input: None,
        parse: Box::new(|text| Ok(text.to_owned())),
        value: value.clone(),
        only_reads: false,
        files: Vec::new(),
    });
    let mut write = Task::new("app", "write", &name)
        .step(WriteFile::new(path("/etc/app/kept"), "same"))
        .step(WriteFile::new(path("/etc/app/changed"), "new"))
        .step(WriteFile::new(path("/etc/app/absent"), "new"))
        .step(file_of(&value, "/etc/app/value"))
        .step(RunScript::new(
            "switch",
            "Switch it on",
            "echo is off; exit 1",
            ": >/root/applied",
        ))
        .step(WaitFor {
            title: "Wait for ever".to_owned(),
            script: ": >/root/polled; exit 1".into(),
            arguments: Vec::new(),
            at_most: Duration::from_secs(3600),
            diagnosis: "".into(),
            about: About::Other,
        });
    write.requires.push(value.name());
    let elsewhere = "node2".parse().unwrap();
    let other = Task::new("app", "write", &elsewhere).step(WriteFile::new(path("/etc/x"), "x"));
    let plan = Plan {
        tasks: vec![write, ask, other],
    };
    let hosts = BTreeMap::from([(name, Arc::clone(&host.host))]);
    let found = diff(&plan, &hosts).await.unwrap();
    insta::assert_snapshot!(found, @r"
    node1: 4 steps differ, 1 found the desired state, 1 actions run in every install
      app/write@node1: Write /etc/app/changed: differs
        @@ -1 +1 @@
        -old
        +new
      app/write@node1: Write /etc/app/absent: does not exist
      app/write@node1: Write /etc/app/value: depends on task app/ask@node1
      app/write@node1: Switch it on: is off
    node2: 0 steps differ, 0 found the desired state, 0 actions run in every install
      not checked to the end: there is no connection
    ");
    assert_eq!(host.listing(), original, "a diff changed something");
    assert!(!host.at("/var/lib/kubexm").exists());
}

/// A file that a person has changed is a difference, also if its content depends on the host.
#[tokio::test]
async fn plan_diff_reads_values_that_change_no_host() {
    let host = Sandbox::new();
    host.write("/etc/app/value", "changed by hand");
    host.write("/root/interface", "eth0");
    let name = host.host.name().clone();
    let plan = || {
        let value = TaskValue::new("app.interface");
        let task = Task::new("app", "write", &name)
            .step(ProvideValue {
                title: "Find the interface".to_owned(),
                script: "cat /root/interface".into(),
                arguments: Vec::new(),
                input: None,
                parse: Box::new(|text| Ok(text.to_owned())),
                value: value.clone(),
                only_reads: true,
                files: Vec::new(),
            })
            .step(file_of(&value, "/etc/app/value"));
        Plan { tasks: vec![task] }
    };
    let hosts = BTreeMap::from([(name.clone(), Arc::clone(&host.host))]);
    let found = diff(&plan(), &hosts).await.unwrap().to_string();
    assert!(found.contains("-changed by hand"), "{found}");
    assert!(found.contains("+eth0"), "{found}");

    std::fs::remove_file(host.at("/root/interface")).unwrap();
    let found = diff(&plan(), &hosts).await.unwrap();
    assert!(!found.has_changes(), "{found}");
    let text = found.to_string();
    let expected = "  app/write@node1: Write /etc/app/value: not compared: task app/write@node1 could not read a value: ";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("/root/interface"), "{text}");
}

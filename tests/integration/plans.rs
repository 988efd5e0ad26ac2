//! Plans as documents: reproducible, without secrets, as the schema describes them.

use std::sync::Arc;

use kubexm_bundle::Blobs;
use kubexm_config::parse_cluster;
use kubexm_deploy::Inputs;
use kubexm_engine::plan::document::PlanDocument;
use kubexm_types::{Digest, Version};
use serde_json::Value;

use crate::combinations::everything;
use crate::example::InMemory;

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
    let mut inputs = Inputs::unseen(&cluster, &lock, blobs);
    inputs.certificates.registry.key = KEY.to_owned();
    let plan = kubexm_deploy::plan(&inputs).unwrap().plan;
    PlanDocument::of(&plan).unwrap().to_json().unwrap()
}

#[test]
fn the_same_inputs_give_the_same_bytes() {
    let first = planned();
    assert!(first.contains("\"control-plane/secrets@node1\""), "{first}");
    assert_eq!(planned(), first);
    let read: PlanDocument = serde_json::from_str(&first).unwrap();
    assert_eq!(read.to_json().unwrap(), first);
}

#[test]
fn a_plan_has_no_secret_and_no_digest_of_a_secret() {
    let text = planned();
    let plan: PlanDocument = serde_json::from_str(&text).unwrap();
    let steps = plan.tasks.iter().flat_map(|task| &task.steps);
    let files: Vec<_> = steps.flat_map(|step| &step.files).collect();
    let file = |path: &str| {
        let mut files = files.iter();
        files.find(|file| file.path.as_str() == path).unwrap()
    };
    // The digest of a public file is there, so that the absence of the others says something.
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

/// Where a document differs from a schema: unknown and missing fields, and values of another type.
fn differences(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let fits = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        _ => match schema["enum"].as_array() {
            Some(words) => words.contains(value),
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
fn a_plan_fits_its_schema() {
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

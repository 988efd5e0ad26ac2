use std::sync::Arc;

use super::*;
use crate::application_images::tests::{Archives, bundle_with};
use crate::example::cluster_with;
use kubexm_deploy::Hidden;
use kubexm_sandbox::Sandbox;
use kubexm_types::Digest;
use kubexm_types::artifact::ArtifactKind;
use serde_json::json;
use std::collections::BTreeSet;

fn objects(manifest: &str) -> Vec<ManifestObject> {
    ManifestObject::parse(manifest, "shop", &Resources::default()).unwrap()
}

fn shown(old: &str, new: &str, secrets: &[&str]) -> String {
    let secrets: BTreeSet<String> = secrets.iter().map(ToString::to_string).collect();
    let objects = compare::compare(&objects(old), &objects(new), &Hidden::new(secrets)).unwrap();
    ApplicationChange {
        name: "shop".to_owned(),
        namespace: "shop".to_owned(),
        reason: Some("revision 1 of shop has another chart or other values".to_owned()),
        not_compared: None,
        objects,
    }
    .to_string()
}

#[test]
fn objects_that_change_are_listed_with_their_differences() {
    let old = "
apiVersion: v1
kind: ConfigMap
metadata: {name: page, namespace: shop}
data: {text: first, other: same}
---
apiVersion: v1
kind: Service
metadata: {name: old}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, annotations: {helm.sh/resource-policy: keep}}
---
apiVersion: policy/v1beta1
kind: PodDisruptionBudget
metadata: {name: web}
---
{kind: Same, metadata: {name: a, labels: {b: c}}}
";
    let new = "
{kind: Same, metadata: {labels: {b: c}, name: a}}
---
apiVersion: v1
kind: List
items: [{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: other}}]
---
apiVersion: v1
kind: ConfigMap
data: {other: same, text: second}
metadata: {namespace: shop, name: page}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
";
    insta::assert_snapshot!(shown(old, new, &[]), @"
    shop in the namespace shop: revision 1 of shop has another chart or other values
      + Deployment other/web
      ~ ConfigMap shop/page
          @@ -2,5 +2,5 @@
           data:
             other: same
          -  text: first
          +  text: second
           kind: ConfigMap
           metadata:
      ~ PodDisruptionBudget web
          @@ -1,3 +1,3 @@
          -apiVersion: policy/v1beta1
          +apiVersion: policy/v1
           kind: PodDisruptionBudget
           metadata:
      - Service old
    ");
}

#[test]
fn copies_and_numbers_of_secrets_are_hidden() {
    let version = |label: &str| {
        format!(
            "
kind: SecretList
items:
- kind: Secret
  metadata: {{name: login, annotations: {{kubectl.kubernetes.io/last-applied-configuration: '{{\"a\":\"b2xk\"}}'}}, label: {label}}}
  data: {{a: b2xk}}
  other: b2xk
---
kind: ConfigMap
metadata: {{name: settings, label: {label}}}
data: {{pin: 4711}}
"
        )
    };
    let shown = shown(&version("old"), &version("new"), &["4711"]);
    assert!(
        shown.contains("label: new") && shown.contains("[redacted]"),
        "{shown}"
    );
    assert!(
        !shown.contains("b2xk") && !shown.contains("4711"),
        "{shown}"
    );
}

#[test]
fn secrets_are_hidden_in_every_object() {
    let old = "
kind: Secret
metadata: {name: login, labels: {app: a}}
data: {same: c2VzYW1l, other: b2xk, number: 1}
---
kind: ConfigMap
metadata: {name: settings}
data: {url: 'db://shop:sesame-1@db/', text: \"host: a\\npassword: unknown-1\\n\", mode: abc, level: x}
";
    let new = "
kind: Secret
metadata: {name: login, labels: {app: b}}
data: {same: c2VzYW1l, other: bmV3, number: 2, added: eA==}
---
kind: ConfigMap
metadata: {name: settings}
data: {url: 'db://shop:sesame-2@db/', text: \"host: b\\npassword: unknown-2\\n\", mode: abc-def, level: z}
";
    let text = shown(old, new, &["sesame-1", "sesame-2", "x", "z"]);
    for secret in ["sesame", "b2xk", "bmV3", "eA==", "unknown"] {
        assert!(!text.contains(secret), "{text}");
    }
    insta::assert_snapshot!(text, @r#"
    shop in the namespace shop: revision 1 of shop has another chart or other values
      ~ Secret login
          @@ -1,9 +1,10 @@
           data:
          -  number: "[redacted]"
          -  other: "[redacted]"
          +  added: "[redacted]"
          +  number: "[redacted] (changed)"
          +  other: "[redacted] (changed)"
             same: "[redacted]"
           kind: Secret
           metadata:
             labels:
          -    app: a
          +    app: b
             name: login
      ~ ConfigMap settings
          @@ -1,9 +1,9 @@
           data:
          -  level: "[redacted]"
          -  mode: abc
          +  level: "[redacted] (changed)"
          +  mode: abc-def
             text: |
          -    host: a
          -    password: [redacted]
          -  url: db://[redacted]@db/
          +    host: b
          +    password: [redacted]
          +  url: db://[redacted]@db/ (changed)
           kind: ConfigMap
           metadata:
    "#);
}

#[test]
fn content_of_a_secret_that_becomes_plain_is_hidden() {
    let settings = |text: &str| {
        format!(
            "
apiVersion: v1
kind: ConfigMap
metadata: {{name: settings}}
data: {{text: '{text}'}}
"
        )
    };
    // `sesame-1` and `sesame-22` as base64.
    let secret = "
---
apiVersion: v1
kind: Secret
metadata: {name: login}
data: {url: c2VzYW1lLTE=}
stringData: {other: sesame-22}
";
    let old = settings("nothing") + secret;
    let new = settings("sesame-1 and sesame-22")
        + "
---
apiVersion: v1
kind: ConfigMap
metadata: {name: login}
data: {url: sesame-1}
";
    insta::assert_snapshot!(shown(&old, &new, &[]), @r#"
    shop in the namespace shop: revision 1 of shop has another chart or other values
      ~ ConfigMap settings
          @@ -1,5 +1,5 @@
           apiVersion: v1
           data:
          -  text: nothing
          +  text: "[redacted] and [redacted]"
           kind: ConfigMap
           metadata:
      + ConfigMap login
      - Secret login
    "#);
}

#[test]
fn application_that_is_as_the_cluster_file_says_is_named() {
    let change = ApplicationChange {
        name: "shop".to_owned(),
        namespace: "web".to_owned(),
        reason: None,
        not_compared: None,
        objects: Vec::new(),
    };
    assert_eq!(
        change.to_string(),
        "shop in the namespace web: nothing to change\n"
    );
    let expected = json!({"name": "shop", "namespace": "web", "objects": []});
    assert_eq!(serde_json::to_value(&change).unwrap(), expected);
}

/// Prints the objects of a chart's directory, or its own arguments as an object.
const HELM: &str = "#!/bin/sh\n[ ! -d \"$3\" ] || exec cat \"$3/manifests.yaml\"\n\
     printf 'kind: A\\nmetadata: {name: \"%s\"}\\n' \"$(echo \"$*\" | sed 's,/[^ ]*/,,g')\"\n";

#[tokio::test]
async fn release_is_rendered_with_its_name_and_values() {
    let (mut lock, archives) = bundle_with(HELM);
    let text = "kind: B\nmetadata: {name: b}\n---\nkind: CustomResourceDefinition\n";
    let mut manifest = lock.artifacts[0].clone();
    (manifest.kind, manifest.digest) = (ArtifactKind::Manifest, Digest::of(text.as_bytes()));
    "text.yaml".clone_into(&mut manifest.name);
    let mut blobs = archives.0.clone();
    blobs.insert(manifest.digest, text.as_bytes().to_vec());
    lock.artifacts.push(manifest);
    let blobs = Arc::new(Archives(blobs));
    let cluster = cluster_with(
        "applications: [{name: web, namespace: one, chart: shop}, {name: text, manifests: [text.yaml]}]",
    );
    let programs = Programs {
        lock: &lock,
        blobs: Arc::clone(&blobs) as _,
        sandbox: Sandbox::Off,
    };
    let inputs = Inputs::assumed(&cluster, &lock, blobs as _);
    let version = Version::new(1, 36, 3);
    let renderer = Renderer::new(&programs, &version).unwrap();
    let mut names = Vec::new();
    for application in &cluster.applications {
        let planned = PlannedApplication::of(&inputs, application).unwrap();
        let objects = renderer
            .objects(&planned, true, &Resources::default())
            .await;
        names.extend(
            objects
                .unwrap()
                .unwrap()
                .into_iter()
                .map(|object| object.name),
        );
    }
    let arguments = "template web chart.tgz --namespace one --no-hooks --is-upgrade --kube-version v1.36.3 --values own-values.json";
    assert_eq!(names, [arguments, "b"]);
}

//! Tests of the search for images.

use super::*;

fn found(text: &str) -> Vec<(String, bool)> {
    let mut found = images_in_yaml(text, "", &[]).found;
    sort(&mut found);
    let image = |one: &Found| one.image.as_ref().ok().map(ToString::to_string);
    let shown = |one: &Found| image(one).unwrap_or_else(|| format!("?{}", one.text));
    found.iter().map(|one| (shown(one), one.is_sure)).collect()
}

#[test]
fn pods_images_are_sure_wherever_the_pod_stands() {
    let text = "
kind: List
items:
- kind: CronJob
  metadata: {name: c}
  spec: {jobTemplate: {spec: {template: {spec: {
    containers: [{name: a, image: a.example/a:1}],
    initContainers: [{name: b, image: 'b:2'}],
    ephemeralContainers: [{name: c, image: c.example/c@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855}],
    volumes: [{name: v, image: {reference: d.example/d:4}}]}}}}}
--- # another
kind: Rollout
spec: {template: {spec: {containers: [{image: e.example/e:5}]}}}
";
    let sure: Vec<String> = found(text)
        .into_iter()
        .filter(|f| f.1)
        .map(|f| f.0)
        .collect();
    let digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let c = format!("c.example/c@{digest}");
    let all = [
        "a.example/a:1",
        "docker.io/library/b:2",
        &c,
        "d.example/d:4",
        "e.example/e:5",
    ];
    assert_eq!(sure.len(), all.len(), "{sure:?}");
    assert!(
        all.iter().all(|image| sure.iter().any(|s| s == image)),
        "{sure:?}"
    );
    let places = images_in_yaml(text, "", &[]).found;
    assert_eq!(places[0].place, "CronJob c, container a");
}

#[test]
fn others_are_guesses_and_what_is_no_image_is_left_alone() {
    let text = "
kind: Prometheus
metadata: {name: p}
spec:
  image: quay.io/p/p:v3
  alertmanager: {image: {registry: quay.io, repository: p/a, tag: 0.28}}
  icon: {image: /logo.png}
  page: {image: https://example.org/x.png}
  word: {image: picture}
  repo: {repository: https://charts.example, name: x}
  env: [{name: RELATED_IMAGE_X, value: x.example/x:1}, {name: OTHER, value: y.example/y:1}]
";
    let wanted = [
        "quay.io/p/a:0.28",
        "quay.io/p/p:v3",
        "x.example/x:1",
        "y.example/y:1",
    ];
    let wanted: Vec<_> = wanted.iter().map(|w| ((*w).to_owned(), false)).collect();
    assert_eq!(found(text), wanted);
}

#[test]
fn an_image_without_tag_or_with_variables_is_reported_and_not_used() {
    let text = "kind: Pod\nspec: {containers: [{name: a, image: nginx}, \
                {name: b, image: 'x.example/b:${TAG}'}]}\n";
    let read = images_in_yaml(text, "", &[]);
    assert!(
        read.found.iter().all(|f| f.sure().is_none() && f.is_sure),
        "{read:?}"
    );
    let found = [read.found[0].to_string(), read.found[1].to_string()];
    insta::assert_snapshot!(found.join("\n"), @"
    'nginx' (Pod, container a): expected a tag or a digest, as in registry.k8s.io/pause:3.10
    'x.example/b:${TAG}' (Pod, container b): contains a variable that kubexm cannot resolve
    ");
}

#[test]
fn a_document_that_is_no_yaml_takes_no_other_with_it() {
    let text = "a: [\n  image: x.example/a:1\n---\nkind: Pod\nspec: {containers: [{image: b.example/b:1}]}\n";
    let read = images_in_yaml(text, "", &[]);
    assert_eq!((read.documents, read.unreadable), (1, 1));
    let all = [
        ("b.example/b:1".to_owned(), true),
        ("x.example/a:1".to_owned(), false),
    ];
    assert_eq!(found(text), all);
}

#[test]
fn deep_and_endless_documents_end() {
    let deep = format!("kind: Pod\nx: {}{}", "[".repeat(50_000), "]".repeat(50_000));
    assert_eq!(images_in_yaml(&deep, "", &[]).unreadable, 1);
    let bomb = "a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g]\n";
    assert_eq!(images_in_yaml(bomb, "", &[]).unreadable, 1);
}

fn sure(text: &str, paths: &[ImagePath]) -> Vec<String> {
    let mut found = images_in_yaml(text, "", paths).found;
    sort(&mut found);
    found.retain(|one| one.is_sure);
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn fields_of_known_resources_are_sure() {
    let text = "
apiVersion: monitoring.coreos.com/v1
kind: Prometheus
metadata: {name: p}
spec: {image: quay.io/p/p:v3}
---
apiVersion: monitoring.coreos.com/v1
kind: Alertmanager
metadata: {name: old}
spec: {baseImage: quay.io/p/a, version: v0.28.0}
---
apiVersion: argoproj.io/v1alpha1
kind: Workflow
spec: {templates: [{script: {image: a.example/script:1}}, {container: {image: a.example/step:1}}]}
---
apiVersion: v1
kind: List
items:
- apiVersion: tekton.dev/v1
  kind: Task
  metadata: {name: t}
  spec: {steps: [{name: s, image: a.example/tekton:1}]}
---
apiVersion: serving.knative.dev/v1
kind: Service
spec: {template: {spec: {containers: [{image: a.example/knative:1}]}}}
---
apiVersion: kubevirt.io/v1
kind: VirtualMachine
spec: {template: {spec: {volumes: [{name: d, containerDisk: {image: a.example/disk:1}}]}}}
---
apiVersion: nvidia.com/v1
kind: ClusterPolicy
spec:
  driver: {repository: nvcr.io/nvidia, image: driver, version: 580.1}
  toolkit: {repository: nvcr.io/nvidia/k8s, image: container-toolkit, version: v1.18.0}
  dcgm: {enabled: false, repository: nvcr.io/nvidia/cloud-native, image: dcgm, version: '4'}
---
apiVersion: other.example/v1
kind: Prometheus
spec: {image: a.example/other:1}
";
    insta::assert_snapshot!(sure(text, &[]).join("\n"), @"
    a.example/disk:1 (VirtualMachine, .spec.template.spec.volumes[*].containerDisk.image)
    a.example/knative:1 (Service, container without name)
    a.example/script:1 (Workflow, .spec.templates[*].script.image)
    a.example/step:1 (Workflow, .spec.templates[*].container.image)
    a.example/tekton:1 (Task t, .spec.steps[*].image)
    nvcr.io/nvidia/k8s/container-toolkit:v1.18.0 (ClusterPolicy, .spec.toolkit)
    quay.io/p/a:v0.28.0 (Alertmanager old, .spec)
    quay.io/p/p:v3 (Prometheus p, .spec.image)
    ");
    let guessed = found(text)
        .into_iter()
        .filter(|one| !one.1)
        .map(|one| one.0);
    let guessed: Vec<String> = guessed.collect();
    let candidates = [
        "a.example/other:1",
        "nvcr.io/nvidia/cloud-native/dcgm:4",
        "nvcr.io/nvidia/driver:580.1",
    ];
    assert_eq!(guessed, candidates);
}

#[test]
fn fields_that_the_user_declares_are_sure() {
    let text = "
apiVersion: a.example/v1
kind: Foo
metadata: {name: f}
spec: {driver: {picture: a.example/driver:1}, parts: [{registry: a.example, repository: part, tag: 2}]}
---
kind: Bar
spec: {driver: {picture: a.example/bar:1}}
";
    assert!(sure(text, &[]).is_empty());
    let declared = ["Foo:.spec.driver.picture", "Foo:{.spec.parts[*]}"];
    let declared = declared.map(|text| text.parse().unwrap());
    insta::assert_snapshot!(sure(text, &declared).join("\n"), @"
    a.example/driver:1 (Foo f, .spec.driver.picture)
    a.example/part:2 (Foo f, .spec.parts[*])
    ");
}

#[test]
fn images_in_arguments_environments_and_config_maps_are_candidates() {
    let text = "
kind: Deployment
metadata: {name: operator}
spec: {template: {spec: {containers: [{
    name: main, image: a.example/operator:1,
    args: [--listen=localhost:8080, --sidecar=a.example/sidecar:1, --acme-http01-solver-image=a.example/solver:1],
    env: [{name: IMAGES, value: '3.9=a.example/three:9, 4.0=a.example/four:0'}, {name: RUN_IMAGE, value: 'team/run:1'},
          {name: URL, value: 'https://a.example/x:1'}, {name: HOST, value: 'db.svc:5432'}]}]}}}
---
kind: ConfigMap
metadata: {name: files}
data:
  helper.yaml: |
    kind: Pod
    spec: {{{{ not YAML }}}}
    image: busybox:1
  app.conf: |
    address = db.svc:5432
    image = a.example/conf:1
";
    let mut found = images_in_yaml(text, "", &[]).found;
    sort(&mut found);
    let shown = found.iter().map(|one| format!("{} {one}", one.is_sure));
    insta::assert_snapshot!(shown.collect::<Vec<_>>().join("\n"), @"
    true a.example/operator:1 (Deployment operator, container main)
    true a.example/solver:1 (Deployment operator, --acme-http01-solver-image)
    false a.example/conf:1 (ConfigMap files, data.app.conf line 2)
    false a.example/four:0 (Deployment operator, env.IMAGES)
    false a.example/sidecar:1 (Deployment operator, spec.template.spec.containers.args)
    false a.example/three:9 (Deployment operator, env.IMAGES)
    false docker.io/library/busybox:1 (ConfigMap files, data.helper.yaml line 3)
    false docker.io/team/run:1 (Deployment operator, RUN_IMAGE)
    ");
}

/// Helm renders and installs such charts, and their pods run the image.
#[test]
fn images_of_an_object_with_a_field_twice_are_sure() {
    let text = "kind: Pod\nmetadata: {labels: {a: b, a: b}}\nspec: {containers: [{name: a, image: a.example/a:1}]}\n";
    assert_eq!(found(text), [("a.example/a:1".to_owned(), true)]);
}

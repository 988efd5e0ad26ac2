mod absent;
mod addons;
mod applying;
mod release;

use super::chart::FOLDER;
use super::*;
use crate::example::{cluster, file_of, lock};
use kubexm_bundle::Lock;
use kubexm_bundle::lock::ChecksumSource;
use kubexm_config::Cluster;
use kubexm_types::Digest;
use kubexm_types::artifact::ArtifactKind;

const MANIFEST: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: text}
data: {a: '{{ not a template }}'}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: toys.example.com}
";

/// Returns a lock with helm, charts and a manifest.
fn with_applications(charts: &[(&str, &str)]) -> Lock {
    let mut lock = lock(&[]);
    let mut helm = lock.files[0].clone();
    helm.component = HELM.to_owned();
    lock.files.push(helm);
    let artifact = |kind, name: &str, version: Option<&str>| LockedArtifact {
        kind,
        name: name.to_owned(),
        version: version.map(str::to_owned),
        url: None,
        size: 7,
        digest: Digest::of(b"content"),
        checksum: ChecksumSource::FirstSeen,
        images: Vec::new(),
    };
    let charts = charts.iter();
    let charts = charts.map(|(name, version)| artifact(ArtifactKind::Chart, name, Some(version)));
    lock.artifacts.extend(charts);
    lock.artifacts
        .push(artifact(ArtifactKind::Manifest, "app.yaml", None));
    lock
}

fn with_plan<T>(cluster: &Cluster, lock: &Lock, look: impl FnOnce(&Inputs<'_>) -> T) -> T {
    let blobs = Arc::new(crate::example::OneFile(MANIFEST.into()));
    look(&Inputs::assumed(cluster, lock, blobs))
}

#[test]
fn applications_are_installed_after_those_that_they_need() {
    let cluster = cluster(
        "",
        "network: {plugin: none}\napplications: [{name: shop, chart: shop, needs: [text]}, {name: text, namespace: one, manifests: [app.yaml]}]",
    );
    let lock = with_applications(&[("shop", "1.2.0")]);
    with_plan(&cluster, &lock, |inputs| {
        let plan = crate::plan(inputs).unwrap().plan;
        let task = plan
            .tasks
            .iter()
            .find(|task| task.id().0 == "applications/shop@node1");
        let after: Vec<&str> = task.unwrap().after.iter().map(|id| id.0.as_str()).collect();
        let expected = [
            "cluster/ready@node1",
            "helm/install@node1",
            "applications/text@node1",
        ];
        assert_eq!(after, expected);
        let file = |name: &str| file_of(inputs, "node1", &format!("{FOLDER}/text/{name}"));
        for name in [
            "Chart.yaml",
            "manifests.yaml",
            "templates/manifests.yaml",
            "crds/crds.yaml",
        ] {
            assert!(file(name).is_some(), "{name}");
        }
    });
}

#[test]
fn what_the_bundle_lacks_is_named() {
    let applications = "network: {plugin: none}\napplications: [{name: shop, chart: shop}, {name: old, chart: shop, version: 0.1.0}, {name: text, manifests: [app.yaml, x.yaml]}]";
    let cluster = cluster("", applications);
    let missing = |lock: &Lock| {
        with_plan(&cluster, lock, |inputs| {
            crate::plan(inputs).err().unwrap().to_string()
        })
    };
    let two = with_applications(&[("shop", "1.2.0"), ("shop", "1.3.0")]);
    insta::assert_snapshot!(missing(&two), @"
    the bundle does not contain everything that this cluster needs; it is missing:
      chart shop 0.1.0 of the application old
      manifest x.yaml of the application text
      one chart shop of the application shop: it has 1.2.0, 1.3.0, and the application does not name one
    ");
    insta::assert_snapshot!(missing(&lock(&[])), @"
    the bundle does not contain everything that this cluster needs; it is missing:
      chart shop 0.1.0 of the application old
      chart shop of the application shop
      helm for amd64
      manifest app.yaml of the application text
      manifest x.yaml of the application text
    ");
}

#[test]
fn a_bundle_with_some_of_the_applications_leaves_the_others() {
    let of_file = "network: {plugin: none}\napplications: [{name: shop, chart: shop, needs: [text]}, {name: text, manifests: [x.yaml]}, \
                   {addon: metallb, addresses: [10.0.0.9-10.0.0.10]}]";
    let cluster = cluster("", of_file);
    let lock = with_applications(&[("shop", "1.2.0")]);
    with_plan(&cluster, &lock, |inputs| {
        let (plan, missing) = applications(inputs).unwrap();
        let tasks: Vec<_> = plan.tasks.iter().map(|task| task.id().0).collect();
        assert_eq!(tasks, ["helm/install@node1", "applications/shop@node1"]);
        assert_eq!(plan.tasks[1].after, [plan.tasks[0].id()]);
        assert_eq!(
            missing,
            [
                "manifest x.yaml of the application text",
                "add-on metallb, a field of spec.addons"
            ]
        );
    });
    let none = with_applications(&[]);
    with_plan(&cluster, &none, |inputs| {
        let (plan, missing) = applications(inputs).unwrap();
        assert_eq!((plan.tasks.len(), missing.len()), (0, 3));
    });
    let two = with_applications(&[("shop", "1.2.0"), ("shop", "1.3.0")]);
    with_plan(&cluster, &two, |inputs| {
        let refused = applications(inputs).err().unwrap().to_string();
        assert!(refused.contains("does not name one"), "{refused}");
    });
}

#[test]
fn manifests_without_definitions_have_no_file_for_them() {
    let cluster = cluster(
        "",
        "network: {plugin: none}\napplications: [{name: text, manifests: [app.yaml]}]",
    );
    let lock = with_applications(&[]);
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: text}\n";
    let blobs = Arc::new(crate::example::OneFile(text.into()));
    let inputs = Inputs::assumed(&cluster, &lock, blobs);
    let file = |name: &str| file_of(&inputs, "node1", &format!("{FOLDER}/text/{name}"));
    assert!(file("manifests.yaml").is_some() && file("crds/crds.yaml").is_none());
}

/// With a namespace, Helm would delete everything in it, and its own Secrets.
#[test]
fn namespaces_of_manifests_stay_when_the_release_goes() {
    let cluster = cluster(
        "",
        "network: {plugin: none}\napplications: [{name: text, manifests: [app.yaml]}]",
    );
    let lock = with_applications(&[]);
    let text = "apiVersion: v1\nkind: List\nitems:\n  - {apiVersion: v1, kind: Namespace, metadata: {name: notes}}\n  \
        - {apiVersion: v1, kind: ConfigMap, metadata: {name: text, namespace: notes}}\n";
    let blobs = Arc::new(crate::example::OneFile(text.into()));
    let inputs = Inputs::assumed(&cluster, &lock, blobs);
    let planned = PlannedApplication::of(&inputs, &cluster.applications[0]).unwrap();
    let ChartContent::Files(files) = planned.chart else {
        panic!("manifests are files of a chart")
    };
    let (_, text) = files
        .iter()
        .find(|(name, _)| name == "manifests.yaml")
        .unwrap();
    let objects = ManifestObject::parse(text, "one", &Resources::default()).unwrap();
    let kept: Vec<bool> = objects.iter().map(ManifestObject::is_kept).collect();
    assert_eq!(kept, [true, false]);
}

/// Their charts may not work with the versions between those of the cluster and the cluster file.
#[test]
fn no_hop_of_an_upgrade_applies_them() {
    let cluster = cluster(
        "",
        "network: {plugin: none}\napplications: [{name: shop, chart: shop}]",
    );
    let lock = with_applications(&[("shop", "1.2.0")]);
    with_plan(&cluster, &lock, |inputs| {
        let given = crate::upgrade::HopInputs {
            inputs: inputs.clone(),
            held: Default::default(),
            drain: None,
            max_unavailable: std::num::NonZeroUsize::MIN,
        };
        let hop = crate::upgrade::hop(&given).unwrap().plan;
        assert!(!hop.tasks.iter().any(is_task));
        let names = applications(inputs).unwrap().0.tasks;
        let names: Vec<String> = names.iter().map(|task| task.id().0).collect();
        assert_eq!(names, ["helm/install@node1", "applications/shop@node1"]);
    });
}

#[test]
fn applications_follow_the_order_of_the_cluster_file() {
    let of_file = "[{name: shop, chart: shop}, {name: former, manifests: [app.yaml]}, {name: last, manifests: [app.yaml]}]";
    let cluster = cluster(
        "",
        &format!("network: {{plugin: none}}\napplications: {of_file}"),
    );
    let lock = with_applications(&[("shop", "1.2.0")]);
    with_plan(&cluster, &lock, |inputs| {
        let plan = applications(inputs).unwrap().0.tasks;
        let before = plan.iter().map(|task| {
            let before = task.after_end.iter().map(|id| id.0.as_str());
            before.collect::<Vec<_>>().join(" ")
        });
        let before: Vec<String> = before.collect();
        let expected = [
            "",
            "",
            "applications/shop@node1",
            "applications/former@node1",
        ];
        assert_eq!(before, expected);
        // A failure stops only those that need the application.
        let needed = plan[3].after.iter().map(|id| id.0.as_str());
        assert_eq!(needed.collect::<Vec<_>>(), ["helm/install@node1"]);
    });
}

/// `app remove` runs on the first control plane that answers.
#[test]
fn every_control_plane_gets_helm() {
    let cluster = kubexm_config::example::cluster_of(
        "control-plane: [node1, node2], worker: [node3]",
        "",
        "controlPlaneEndpoint: api.example:6443\nnetwork: {plugin: none}\napplications: [{name: shop, chart: shop}]",
    );
    let lock = with_applications(&[("shop", "1.2.0")]);
    with_plan(&cluster, &lock, |inputs| {
        let plan = applications(inputs).unwrap().0.tasks;
        let names: Vec<String> = plan.iter().map(|task| task.id().0).collect();
        let expected = [
            "helm/install@node1",
            "helm/install@node2",
            "applications/shop@node1",
        ];
        assert_eq!(names, expected);
    });
}

#[test]
fn artifacts_without_an_application_are_counted() {
    let lock = with_applications(&[("shop", "1.2.0"), ("shop", "1.3.0")]);
    for (applications, expected) in [
        ("[]", 3),
        ("[{name: shop, chart: shop, version: 1.2.0}]", 2),
        (
            "[{name: a, chart: shop, version: 1.3.0}, {name: b, manifests: [app.yaml]}]",
            1,
        ),
    ] {
        let cluster = cluster("", &format!("applications: {applications}"));
        assert_eq!(crate::offers::not_applied(&cluster, &lock), expected);
    }
}

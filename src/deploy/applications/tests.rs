mod addons;

use serde_json::json;

use super::chart::FOLDER;
use super::*;
use crate::example::{cluster, file_of, lock};
use crate::fake_host::{FakeApi, NoUndo};
use kubexm_bundle::Lock;
use kubexm_bundle::lock::ChecksumSource;
use kubexm_config::Cluster;
use kubexm_engine::plan::{Check, Step, StepContext};
use kubexm_engine::{Command, HostError, Output};
use kubexm_types::Digest;
use kubexm_types::event::Events;

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
        assert!(matches!(
            applications(inputs),
            Err(DeployError::Incomplete(_))
        ));
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

/// Returns the release of an application with this namespace.
fn release(values: &str) -> Release {
    let values: Value = serde_json::from_str(values).unwrap();
    release_with(values.clone(), values)
}

/// Returns a release with values, and those without secrets.
fn release_with(values: Value, plain: Value) -> Release {
    let application = cluster(
        "",
        "applications: [{name: shop, namespace: one, chart: shop}]",
    );
    let application = &application.applications[0];
    let lock = with_applications(&[("shop", "1.2.0")]);
    let parts: Vec<_> = lock.artifacts.iter().take(1).collect();
    let cluster = cluster("", "");
    with_plan(&cluster, &lock, |inputs| {
        let chart = Chart::of(inputs, application, &parts).unwrap();
        Release::new(application, &chart, (values, plain))
    })
}

fn revisions(revisions: &[(&str, &str, Option<&str>)]) -> FakeApi {
    let items = revisions.iter().map(|(number, status, content)| {
        json!({
            "secret": format!("sh.helm.release.v1.shop.v{number}"),
            "release": "shop", "namespace": "one",
            "revision": number, "status": status, "content": content,
        })
    });
    let items: Vec<_> = items.collect();
    FakeApi::new([("secrets", json!({"items": items}))])
}

async fn checked(release: Release, host: &FakeApi) -> Result<String, String> {
    let Step::Ensure(step) = Step::from(release) else {
        panic!("a release is a step with a check")
    };
    match step.check(host).await {
        Ok(Check::Satisfied) => Ok("satisfied".to_owned()),
        Ok(Check::Needed { reason, .. }) => Ok(reason.to_string()),
        Ok(Check::Reported(_)) => panic!("a release reports nothing"),
        Err(error) => Err(error.to_string()),
    }
}

#[tokio::test]
async fn release_is_satisfied_by_its_newest_revision() {
    let content = release("{}").content.clone();
    let own = Some(content.as_str());
    for (found, expected) in [
        (vec![], "the release shop does not exist"),
        (
            vec![("9", "superseded", None), ("10", "deployed", own)],
            "satisfied",
        ),
        (
            vec![("1", "deployed", Some("other"))],
            "revision 1 of shop has another chart or other values",
        ),
        (
            vec![("1", "deployed", None)],
            "revision 1 of shop has another chart or other values",
        ),
        (
            vec![("1", "deployed", own), ("2", "failed", own)],
            "revision 2 of shop is failed",
        ),
    ] {
        assert_eq!(
            checked(release("{}"), &revisions(&found)).await.unwrap(),
            expected
        );
    }
    let host = revisions(&[("1", "deployed", own)]);
    let changed = checked(release("{\"a\":1}"), &host);
    assert!(changed.await.unwrap().contains("other values"));
    let none = checked(release("{}"), &FakeApi::without_cluster()).await;
    assert_eq!(none.unwrap(), crate::fake_host::NO_CLUSTER);
    assert!(checked(release("{}"), &FakeApi::silent()).await.is_err());
}

/// A label is for all who read Secrets of the namespace, and arguments of helm are for all users of the host.
#[tokio::test]
async fn secret_values_are_compared_with_those_that_helm_stores() {
    let secret = |text: &str| release_with(json!({"a": text}), json!({"a": "hidden"}));
    let content = secret("sesame").content;
    assert_eq!(content, secret("other").content);
    let revision = json!({"items": [{
        "secret": "sh.helm.release.v1.shop.v1", "release": "shop", "namespace": "one",
        "revision": "1", "status": "deployed", "content": content,
    }]});
    let stored = stored::packed(&json!({"config": {"a": "sesame"}}).to_string());
    let question = "secret sh.helm.release.v1.shop.v1";
    let host = FakeApi::new([
        ("secrets", revision),
        (question, json!({"release": stored})),
    ]);
    assert_eq!(checked(secret("sesame"), &host).await.unwrap(), "satisfied");
    let other = checked(secret("other"), &host).await.unwrap();
    assert_eq!(
        other,
        "revision 1 of shop has another chart or other values"
    );
}

/// An install with the bundle of the cluster would undo `app apply` with a newer one.
#[tokio::test]
async fn newer_chart_of_the_cluster_stays() {
    let of = async |deployed: &str, status: &str| {
        let revision = json!({"items": [{
            "secret": "", "release": "shop", "namespace": "one", "revision": "2", "status": status,
            "content": "other", "chart": "shop", "chartVersion": deployed,
        }]});
        let Step::Ensure(step) = Step::from(release("{}")) else {
            panic!("a release is a step with a check")
        };
        step.check(&FakeApi::new([("secrets", revision)]))
            .await
            .unwrap()
    };
    let Check::Reported(message) = of("1.10.0", "deployed").await else {
        panic!("the chart of the bundle is older")
    };
    insta::assert_snapshot!(message, @"
    the application shop keeps version 1.10.0 of its chart: that of the bundle, 1.2.0, is older
    hint: run kubexm app apply --bundle BUNDLE -f CLUSTER with a bundle that has 1.10.0, or set `version: 1.2.0` in spec.applications to go back
    ");
    for (deployed, status) in [
        ("1.1.9", "deployed"),
        ("1.2.0_2", "deployed"),
        ("1.10.0", "failed"),
    ] {
        assert!(
            matches!(of(deployed, status).await, Check::Needed { .. }),
            "{deployed}"
        );
    }
}

async fn applied(host: &FakeApi) -> Result<String, String> {
    let Step::Ensure(step) = Step::from(release("{}")) else {
        panic!("a release is a step with a check")
    };
    let events = Events::silent();
    let context = StepContext {
        host,
        undo: &NoUndo,
        events: &events,
    };
    let applied = step
        .apply(&context)
        .await
        .map_err(|error| error.to_string());
    applied.map(|()| host.changes().join("\n"))
}

#[tokio::test]
async fn revision_that_a_killed_run_left_is_replaced_and_that_of_others_is_not() {
    let killed = revisions(&[
        ("1", "deployed", Some("x")),
        ("2", "pending-upgrade", Some("y")),
    ]);
    let words = applied(&killed).await.unwrap();
    assert!(
        words.contains("pending=sh.helm.release.v1.shop.v2"),
        "{words}"
    );
    let first = applied(&revisions(&[])).await.unwrap();
    assert!(
        !first.contains("pending=sh.helm") && first.contains("namespace=one"),
        "{first}"
    );
    let labels = ",kubexm.io/chart=shop,kubexm.io/chart-version=1.2.0";
    assert!(first.contains(labels), "{first}");
    let other = applied(&revisions(&[("3", "pending-install", None)])).await;
    insta::assert_snapshot!(other.unwrap_err(), @"
    cannot change the release shop: another program works on it, or was killed: revision 3 is pending-install
    hint: wait until it ends, or run `helm rollback shop -n one`; then run the same command again
    ");
}

/// A host on which helm quotes a value that it refuses.
struct Quoting(FakeApi);

#[async_trait::async_trait]
impl kubexm_engine::Host for Quoting {
    fn name(&self) -> &kubexm_types::HostName {
        self.0.name()
    }

    async fn run(&self, command: Command) -> Result<Output, HostError> {
        let is_helm = command.description().starts_with("Install");
        // Its output is not in the log of the host.
        assert!(command.has_secret_output());
        let mut output = self.0.run(command).await?;
        if is_helm {
            output.status = 1;
            output.stderr = b"invalid value: \"sesame-open\"; it was \"former-value\"".to_vec();
        }
        Ok(output)
    }
}

#[tokio::test]
async fn messages_of_helm_have_no_secret() {
    let release = release_with(json!({"a": "sesame-open"}), json!({"a": "hidden"}));
    let revision = json!({"items": [{
        "secret": "sh.helm.release.v1.shop.v1", "release": "shop", "namespace": "one",
        "revision": "1", "status": "deployed", "content": "other",
    }]});
    let stored = stored::packed(&json!({"config": {"a": "former-value"}}).to_string());
    let question = "secret sh.helm.release.v1.shop.v1";
    let host = Quoting(FakeApi::new([
        ("secrets", revision),
        (question, json!({"release": stored})),
    ]));
    let Step::Ensure(step) = Step::from(release) else {
        panic!("a release is a step with a check")
    };
    let error = crate::fake_host::apply(step.as_ref(), &host)
        .await
        .unwrap_err();
    assert!(
        error.contains("invalid value: \"[redacted]\"; it was \"[redacted]\""),
        "{error}"
    );
}

#[tokio::test]
async fn newest_revision_of_a_release_counts() {
    let revision = |name: &str, number: &str, status: &str, content: Option<&str>| {
        let chart = content.map(|_| name);
        json!({
            "secret": "", "release": name, "namespace": "one", "revision": number, "status": status,
            "content": content, "chart": chart, "chartVersion": chart.map(|_| number),
        })
    };
    let items = json!({"items": [
        revision("shop", "10", "failed", Some("y")),
        revision("shop", "9", "deployed", Some("x")),
        revision("other", "1", "deployed", None),
    ]});
    let host = FakeApi::new([("secrets", items)]);
    let found = releases(crate::objects::Server::of(&host)).await.unwrap();
    let [other, shop] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!((other.name.as_str(), other.is_of_kubexm), ("other", false));
    let (chart, version) = (shop.chart.as_deref(), shop.chart_version.as_deref());
    assert_eq!((chart, version), (Some("shop"), Some("10")));
    assert_eq!((shop.revision, shop.status.as_str()), (10, "failed"));
    assert_eq!(shop.compared, 9);
    // The cluster file does not have to know releases of others.
    assert_eq!(former(&found, &[]).collect::<Vec<_>>(), [shop]);
}

#[test]
fn objects_are_compared_with_the_deployed_revision() {
    for (revisions, expected) in [
        (&[("1", "superseded"), ("2", "deployed")][..], Some("2")),
        (&[("2", "deployed"), ("10", "failed")], Some("2")),
        (
            &[("2", "failed"), ("10", "failed"), ("11", "pending-upgrade")],
            Some("10"),
        ),
        (&[("1", "pending-install")], None),
    ] {
        let revisions = revisions.iter().map(|(number, status)| {
            let fields = json!({"secret": "", "release": "", "namespace": "", "revision": number, "status": status});
            serde_json::from_value(fields).unwrap()
        });
        let revisions: Vec<installed::Revision> = revisions.collect();
        let found = installed::compared(&revisions);
        assert_eq!(found.map(|one| one.revision.as_str()), expected);
    }
}

#[test]
fn label_has_the_characters_that_kubernetes_permits() {
    for (text, expected) in [
        ("1.2.0+build.1", "1.2.0_build.1"),
        ("a,b=c", "a_b_c"),
        ("-a-", "a"),
        ("", ""),
        (&"a".repeat(80), &"a".repeat(63)),
    ] {
        assert_eq!(installed::label(text), expected);
    }
}

#[tokio::test]
async fn release_that_the_cluster_file_does_not_have_is_reported() {
    let of = |applications: &str| {
        let cluster = cluster("", &format!("applications: {applications}"));
        Former::new(&cluster.applications)
    };
    let found = async |former: Former| {
        let host = revisions(&[("1", "superseded", Some("x")), ("2", "deployed", Some("y"))]);
        let Step::Ensure(step) = Step::from(former) else {
            panic!("it has a check")
        };
        step.check(&host).await.unwrap()
    };
    let known = found(of("[{name: shop, namespace: one, chart: shop}]")).await;
    assert_eq!(known, Check::Satisfied);
    let Check::Reported(message) = found(of("[{name: shop, chart: shop}]")).await else {
        panic!("the release of another namespace is reported")
    };
    insta::assert_snapshot!(message, @"
    applications of an earlier install stay in the cluster: one/shop
    hint: add them to spec.applications again, or remove them with `kubexm app remove shop --namespace one`
    ");
}

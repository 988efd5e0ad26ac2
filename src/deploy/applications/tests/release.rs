//! Releases: when an install changes them.

use serde_json::json;

use super::applying::applied;
use super::*;
use crate::fake_host::FakeApi;
use kubexm_engine::plan::{Check, Ensure, Step};

/// Returns the release of an application with this namespace.
pub(super) fn release(values: &str) -> Release {
    let values: Value = serde_json::from_str(values).unwrap();
    release_with(values.clone(), values)
}

/// Returns a release with values, and those without secrets.
pub(super) fn release_with(values: Value, plain: Value) -> Release {
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

pub(super) fn revisions(revisions: &[(&str, &str, Option<&str>)]) -> FakeApi {
    let items = revisions.iter().map(|(number, status, content)| {
        json!({
            "secret": format!("sh.helm.release.v1.shop.v{number}"),
            "release": "shop", "namespace": "one",
            "revision": number, "status": status, "content": content,
        })
    });
    let items: Vec<_> = items.collect();
    let stored = stored::packed(&json!({"config": {}}).to_string());
    FakeApi::new([
        ("secrets", json!({"items": items})),
        ("secret sh.helm.release.v1.shop", json!({"release": stored})),
    ])
}

async fn checked(release: Release, host: &FakeApi) -> Result<String, String> {
    match release.check(host).await {
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

/// Manifests can have Secrets, which Helm stores with the chart.
#[tokio::test]
async fn secrets_of_manifests_are_compared_with_those_that_helm_stores() {
    let release = |password: &str, other: &str| {
        let cluster = cluster(
            "",
            "applications: [{name: shop, namespace: one, manifests: [app.yaml]}]",
        );
        let text = format!(
            "{{apiVersion: v1, kind: List, items: [{{apiVersion: v1, kind: Secret, metadata: {{name: a}}, stringData: {{password: {password}}}}}]}}\n\
             ---\n{{apiVersion: v1, kind: ConfigMap, metadata: {{name: b}}, data: {{c: {other}}}}}\n"
        );
        let lock = with_applications(&[]);
        let blobs = Arc::new(crate::example::OneFile(text.into()));
        let inputs = Inputs::assumed(&cluster, &lock, blobs);
        let parts: Vec<_> = lock.artifacts.iter().collect();
        let application = &cluster.applications[0];
        let chart = Chart::of(&inputs, application, &parts).unwrap();
        let ChartContent::Files(files) = chart.content.clone() else {
            panic!("manifests are files of a chart")
        };
        let files = files.into_iter().map(|(name, text)| {
            json!({"name": name, "data": base64::Engine::encode(&base64::prelude::BASE64_STANDARD, text)})
        });
        let chart_files: Vec<_> = files.collect();
        let none = json!({});
        (
            Release::new(application, &chart, (none.clone(), none)),
            chart_files,
        )
    };
    let (first, files) = release("sesame", "x");
    let content = first.content.clone();
    assert_eq!(content, release("other", "x").0.content);
    assert_ne!(content, release("sesame", "y").0.content);
    let revision = json!({"items": [{
        "secret": "sh.helm.release.v1.shop.v1", "release": "shop", "namespace": "one",
        "revision": "1", "status": "deployed", "content": content,
    }]});
    let stored = stored::packed(&json!({"chart": {"files": files}}).to_string());
    let question = "secret sh.helm.release.v1.shop.v1";
    let host = FakeApi::new([
        ("secrets", revision),
        (question, json!({"release": stored})),
    ]);
    assert_eq!(checked(first, &host).await.unwrap(), "satisfied");
    assert_eq!(
        checked(release("other", "x").0, &host).await.unwrap(),
        "revision 1 of shop has another chart or other values"
    );
}

/// An install with the bundle of the cluster would undo `app apply` with a newer one.
#[tokio::test]
async fn newer_chart_of_the_cluster_stays() {
    let with = async |deployed: &str, status: &str, values: Value| {
        let stored = stored::packed(&json!({"config": {"a": 1}}).to_string());
        let revision = json!({"items": [{
            "secret": "newest", "release": "shop", "namespace": "one", "revision": "2", "status": status,
            "content": "other", "chart": "shop", "chartVersion": deployed,
        }]});
        let step = release(&values.to_string());
        let host = FakeApi::new([
            ("secrets", revision),
            ("secret newest", json!({"release": stored})),
        ]);
        step.check(&host).await.unwrap()
    };
    let of = async |deployed: &str, status: &str| with(deployed, status, json!({"a": 1})).await;
    let Check::Reported(message) = of("1.10.0", "deployed").await else {
        panic!("the chart of the bundle is older")
    };
    insta::assert_snapshot!(message, @"
    the application shop keeps version 1.10.0 of its chart: that of the bundle, 1.2.0, is older
    hint: run kubexm app apply --bundle BUNDLE -f CLUSTER with a bundle that has 1.10.0, or set `version: 1.2.0` in spec.applications to go back
    ");
    let Check::Reported(message) = with("1.10.0", "deployed", json!({"a": 2})).await else {
        panic!("the chart of the bundle is older")
    };
    insta::assert_snapshot!(message.text, @"the application shop keeps version 1.10.0 of its chart: that of the bundle, 1.2.0, is older; changed values of the cluster file do not apply");
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

/// Helm hands on the labels of the revision that it upgrades or goes back to.
#[tokio::test]
async fn revision_that_helm_created_is_not_that_of_kubexm() {
    let content = release("{}").content.clone();
    let found = async |number: &str, applied: Option<&str>, status: &str| {
        let items = json!({"items": [{
            "secret": "", "release": "shop", "namespace": "one", "revision": number, "status": status,
            "content": content, "applied": applied,
        }]});
        let stored = json!({"release": stored::packed("{}")});
        let host = FakeApi::new([("secrets", items), ("secret ", stored)]);
        checked(release("{}"), &host).await.unwrap()
    };
    let changed = "the release shop was changed by helm since kubexm applied it, revision 3: kubexm applies the chart and the values of \
                   the cluster file again";
    assert_eq!(found("3", Some("2"), "deployed").await, changed);
    assert_eq!(found("3", Some("2"), "failed").await, changed);
    assert_eq!(found("3", Some("3"), "deployed").await, "satisfied");
    // kubexm did not write the number before.
    assert_eq!(found("3", None, "deployed").await, "satisfied");
}

/// Helm hands on the labels of the revision to which it goes back: those of an earlier version of kubexm have no number.
#[tokio::test]
async fn rollback_to_a_revision_without_a_number_is_of_helm() {
    let content = release("{}").content.clone();
    let of = |status: &str| {
        let one = |number: &str, applied: Option<&str>, status: &str| {
            json!({
                "secret": format!("sh.helm.release.v1.shop.v{number}"), "release": "shop", "namespace": "one",
                "revision": number, "status": status, "content": content, "applied": applied,
            })
        };
        let items = [
            one("3", None, status),
            one("1", None, "superseded"),
            one("2", Some("2"), "superseded"),
        ];
        let stored = json!({"release": stored::packed("{}")});
        FakeApi::new([("secrets", json!({"items": items})), ("secret ", stored)])
    };
    let found = checked(release("{}"), &of("deployed")).await.unwrap();
    assert!(found.contains("was changed by helm"), "{found}");
    let all = releases(crate::objects::Server::of(&of("deployed"))).await;
    assert!(all.unwrap()[0].is_changed_by_helm);
    let refused = applied(&of("pending-rollback")).await.unwrap_err();
    assert!(refused.contains("another program works on it"), "{refused}");
}

/// `helm upgrade` hands on the labels with the version of the chart before.
#[tokio::test]
async fn version_of_a_chart_that_helm_applied_is_the_stored_one() {
    let host = |label: &str, version: &str| {
        let one = |number: &str, status: &str| {
            json!({
                "secret": format!("sh.helm.release.v1.shop.v{number}"), "release": "shop", "namespace": "one",
                "revision": number, "status": status, "content": "x", "applied": "1", "chart": "shop", "chartVersion": label,
            })
        };
        let items = json!({"items": [one("1", "superseded"), one("2", "deployed")]});
        let chart = json!({"metadata": {"name": "shop", "version": version}});
        let stored = stored::packed(&json!({"chart": chart, "config": {}}).to_string());
        let secret = "secret sh.helm.release.v1.shop.v2";
        FakeApi::new([("secrets", items), (secret, json!({"release": stored}))])
    };
    let check = async |host: &FakeApi| {
        let step = release("{}");
        step.check(host).await.unwrap()
    };
    // The bundle has 1.2.0.
    let newer = host("1.1.0", "1.10.0+b");
    let Check::Reported(message) = check(&newer).await else {
        panic!("the chart of the bundle is older")
    };
    assert!(message.text.contains("version 1.10.0+b"), "{message}");
    let older = host("1.10.0", "1.1.0");
    assert!(matches!(check(&older).await, Check::Needed { .. }));
    let found = releases(crate::objects::Server::of(&newer)).await.unwrap();
    assert_eq!(found[0].chart_version.as_deref(), Some("1.10.0_b"));
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
    assert!(!shop.is_changed_by_helm && !other.is_changed_by_helm);
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

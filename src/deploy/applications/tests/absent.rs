//! Applications of which the bundle does not have everything.

use super::release::revisions;
use super::*;
use crate::fake_host::{FakeApi, apply};
use crate::objects::Server;
use kubexm_engine::plan::{Check, Step};
use serde_json::json;

/// Returns what a command says before it begins, and what the step of the plan says.
async fn said(fields: &str, host: &FakeApi) -> (Vec<String>, String) {
    let applications = format!("[{{name: shop, namespace: one, chart: shop{fields}}}]");
    let cluster = cluster("", &format!("applications: {applications}"));
    let lock = with_applications(&[]);
    let missing = missing_applications(&cluster, &lock, Server::of(host)).await;
    let missing = missing.unwrap().into_iter();
    let parts = vec!["chart shop of the application shop".to_owned()];
    let Step::Ensure(step) = Step::from(Absent::new(&cluster.applications[0], parts)) else {
        panic!("it has a check")
    };
    let ended = match step.check(host).await.unwrap() {
        Check::Reported(message) => message.to_string(),
        _ => apply(step.as_ref(), host).await.unwrap_err(),
    };
    (missing.map(|one| one.instead).collect(), ended)
}

#[tokio::test]
async fn application_that_the_bundle_does_not_have_stays_if_the_cluster_has_it() {
    let deployed = revisions(&[("2", "deployed", Some("x"))]);
    let (missing, ended) = said("", &deployed).await;
    assert_eq!(missing, [""; 0]);
    insta::assert_snapshot!(ended, @"
    the application shop stays as it is: the bundle does not have chart shop of the application shop
    hint: run kubexm app apply --bundle BUNDLE -f CLUSTER with a bundle that has it
    ");
    let (_, ended) = said(", values: {a: 1}", &deployed).await;
    let changed = "of the application shop; changed values of the cluster file do not apply\nhint";
    assert!(ended.contains(changed), "{ended}");
    let (missing, ended) = said("", &revisions(&[])).await;
    assert_eq!(missing, ["the cluster does not have it"]);
    insta::assert_snapshot!(ended, @"
    the bundle does not have the application shop, and the cluster does not have it: chart shop of the application shop
    hint: build a bundle with it, or remove the application from spec.applications
    ");
}

/// A bundle without an application does not hide that the cluster does not have it as the cluster file states.
#[tokio::test]
async fn release_that_is_not_as_the_cluster_file_states_does_not_count() {
    let of_chart = |version: &str| {
        let items = json!({"items": [{
            "secret": "a", "release": "shop", "namespace": "one", "revision": "1", "status": "deployed", "content": "x",
            "chart": "shop", "chartVersion": version,
        }]});
        let stored = json!({"release": stored::packed("{}")});
        FakeApi::new([("secrets", items), ("secret sh.helm", stored)])
    };
    for (host, expected) in [
        (
            revisions(&[("1", "deployed", None)]),
            Some("kubexm did not create its release in the cluster"),
        ),
        (
            revisions(&[("1", "deployed", Some("x")), ("2", "failed", Some("x"))]),
            Some("revision 2 of its release in the cluster is failed"),
        ),
        (
            of_chart("1.1.0"),
            Some("the cluster has version 1.1.0 of its chart"),
        ),
        (of_chart("1.2.0"), None),
    ] {
        let (missing, ended) = said(", version: 1.2.0", &host).await;
        assert_eq!(missing, Vec::from_iter(expected));
        let shown = expected.unwrap_or("stays as it is");
        assert!(ended.contains(shown), "{ended}");
    }
}

/// Each team has its own bundle.
#[tokio::test]
async fn bundle_needs_no_application_of_another_one_unless_its_own_ones_do() {
    for (of_file, lock, expected) in [
        ("", with_applications(&[("shop", "1.2.0")]), false),
        (
            ", needs: [pay]",
            with_applications(&[("shop", "1.2.0")]),
            true,
        ),
        ("", lock(&[]), true),
    ] {
        let applications =
            format!("[{{name: pay, chart: pay}}, {{name: shop, chart: shop{of_file}}}]");
        let cluster = cluster("", &format!("applications: {applications}"));
        let missing = missing_applications(&cluster, &lock, Server::of(&revisions(&[]))).await;
        let pay = missing.unwrap().remove(0);
        assert_eq!((pay.name.as_str(), pay.is_needed), ("pay", expected));
    }
}

/// They came from a bundle with applications alone, or from an earlier one.
#[test]
fn applications_of_a_cluster_that_exists_may_be_in_another_bundle() {
    let of_file = "network: {plugin: none}\napplications: [{name: shop, chart: shop}, {name: text, manifests: [x.yaml], needs: [shop]}, \
                   {addon: metallb, addresses: [10.0.0.9-10.0.0.10]}]";
    let cluster = cluster("", of_file);
    let without_helm = lock(&[]);
    with_plan(&cluster, &without_helm, |inputs| {
        assert!(crate::plan(inputs).is_err(), "it is another cluster");
        let mut inputs = inputs.clone();
        inputs
            .hosts
            .values_mut()
            .for_each(|facts| facts.is_node = true);
        let plan = crate::plan(&inputs).unwrap().plan;
        let planned = plan.tasks.iter().filter(|task| is_task(task));
        let planned = planned.flat_map(|task| task.steps.iter().map(|step| step.describe()));
        let planned: Vec<String> = planned.collect();
        assert!(
            planned.contains(&"Look for the application shop in the namespace default".to_owned()),
            "{planned:?}"
        );
        assert!(
            !planned.iter().any(|one| one.starts_with("Install")),
            "{planned:?}"
        );
    });
}

//! Applications of which the bundle does not have everything.

use super::release::revisions;
use super::*;
use crate::fake_host::{FakeApi, apply};
use crate::objects::Server;
use kubexm_engine::plan::{Check, Step};

#[tokio::test]
async fn application_that_the_bundle_does_not_have_stays_if_the_cluster_has_it() {
    let applications = "[{name: shop, namespace: one, chart: shop}]";
    let cluster = cluster("", &format!("applications: {applications}"));
    let lock = with_applications(&[]);
    let look = async |host: &FakeApi| {
        let missing = missing_applications(&cluster, &lock, Server::of(host)).await;
        let parts = ["chart shop of the application shop".to_owned()];
        let Step::Ensure(step) = Step::from(Absent::new(&cluster.applications[0], &parts)) else {
            panic!("it has a check")
        };
        let ended = match step.check(host).await.unwrap() {
            Check::Reported(message) => message.to_string(),
            _ => apply(step.as_ref(), host).await.unwrap_err(),
        };
        (missing.unwrap(), ended)
    };
    let (missing, ended) = look(&revisions(&[("2", "deployed", Some("x"))])).await;
    assert_eq!(missing, [""; 0]);
    insta::assert_snapshot!(ended, @"
    the application shop stays as it is, because the bundle does not have it: chart shop of the application shop
    hint: run kubexm app apply --bundle BUNDLE -f CLUSTER with a bundle that has it
    ");
    // A release of others, and none.
    for host in [revisions(&[("1", "deployed", None)]), revisions(&[])] {
        let (missing, ended) = look(&host).await;
        assert_eq!(missing, ["chart shop of the application shop"]);
        insta::allow_duplicates! {
            insta::assert_snapshot!(ended, @"
            neither the bundle nor the cluster has the application shop: chart shop of the application shop
            hint: build a bundle with it, or remove the application from spec.applications
            ");
        }
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

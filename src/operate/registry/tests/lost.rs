//! Blobs that no registry has any more.

use std::collections::BTreeMap;

use super::super::sync;
use super::{Catalog, Prepared, Store, blob, read, run, site, two_registries};

/// What no registry can restore is named, and does not prevent the rest.
#[tokio::test(flavor = "multi_thread")]
async fn image_that_lost_a_blob_everywhere_does_not_stop_the_others() {
    let site = site();
    let [one, two] = [Store(&site, "node1"), Store(&site, "node2")];
    let (_, layer) = one.image("r.io/lost", "v1", "lost");
    std::fs::remove_file(one.at(&format!("{}/data", blob(layer)))).unwrap();
    one.image("r.io/good", "v1", "good");
    let prepared = sync::prepared(
        &two_registries(),
        &read(&site).await,
        &BTreeMap::new(),
        None,
        &site.events,
    );
    let Prepared {
        text,
        plan,
        remaining,
        ..
    } = prepared.unwrap();
    run(&site, plan).await;
    assert!(
        text.contains("r.io/good:v1") && !text.contains("r.io/lost:v1"),
        "{text}"
    );
    let error = remaining.unwrap().to_string();
    assert!(
        error.contains("r.io/lost:v1: 1 blob lost") && !error.contains("good"),
        "{error}"
    );
    assert!(
        two.at("repositories/r.io/good/_manifests/tags/v1/current/link")
            .exists()
    );
}

/// No other registry can repair the only one.
#[tokio::test(flavor = "multi_thread")]
async fn only_registry_that_lost_a_blob_is_not_called_equal() {
    let site = site();
    let one = Store(&site, "node1");
    let mut cluster = two_registries();
    cluster.roles.registry = ["node1".parse().unwrap()].into();
    let (index, layer) = one.image("r.io/app", "v1", "layer");
    let remaining = async || {
        let catalog = Catalog::read(&cluster, &site.hosts).await.unwrap();
        let facts = BTreeMap::new();
        let prepared = sync::prepared(&cluster, &catalog, &facts, None, &site.events).unwrap();
        assert!(prepared.plan.tasks.is_empty());
        prepared.remaining
    };
    assert!(remaining().await.is_none());
    for lost in [layer, index] {
        let path = format!("{}/data", blob(lost));
        let content = std::fs::read(one.at(&path)).unwrap();
        one.write(&path, b"");
        let error = remaining().await.unwrap();
        assert_eq!(error.kind(), kubexm_types::ErrorKind::Refused);
        let text = error.to_string();
        assert!(
            text.contains("r.io/app:v1") && text.contains("kubexm registry add"),
            "{text}"
        );
        one.write(&path, &content);
    }
}

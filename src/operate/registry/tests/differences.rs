//! Registries that mean different images with the same name.

use super::super::uses::Uses;
use super::{Catalog, Store, read, site, synced};
use kubexm_types::Digest;

#[tokio::test(flavor = "multi_thread")]
async fn name_with_two_meanings_needs_a_decision() {
    let site = site();
    let [one, two] = [Store(&site, "node1"), Store(&site, "node2")];
    let (first, _) = one.image("r.io/a", "v1", "old");
    let (second, _) = two.image("r.io/a", "v1", "new");
    let error = synced(&site, None).await.unwrap_err();
    assert!(
        error.contains(&format!("r.io/a:v1: {first} on node1, {second} on node2"))
            || error.contains(&format!("r.io/a:v1: {second} on node2, {first} on node1")),
        "{error}"
    );
    assert!(
        error.contains("\nhint: ") && error.contains("--from"),
        "{error}"
    );
    synced(&site, Some("node2")).await.unwrap();
    let current = "repositories/r.io/a/_manifests/tags/v1/current/link";
    assert_eq!(
        std::fs::read_to_string(one.at(current)).unwrap(),
        second.to_string()
    );
    assert!(
        synced(&site, Some("node9"))
            .await
            .unwrap_err()
            .contains("node1, node2")
    );
}

/// Writes an image with its signature into both registries. Returns the image.
fn signed_in_both(stores: &[Store<'_>; 2]) -> Digest {
    let mut digests = stores
        .iter()
        .map(|store| store.image("r.io/app", "v1", "layer").0);
    let digest = digests.next().unwrap();
    assert!(digests.all(|other| other == digest));
    digest
}

/// Returns what the tag of the signature of an image means in a registry.
fn signature_of(catalog: &Catalog, at: usize, image: Digest) -> Digest {
    let path = format!(
        "repositories/r.io/app/_manifests/tags/sha256-{}.sig/current/link",
        image.hex()
    );
    catalog.registries[at].storage.links[&path]
}

#[tokio::test(flavor = "multi_thread")]
async fn signature_with_two_meanings_needs_a_decision_as_well() {
    let site = site();
    let stores = [Store(&site, "node1"), Store(&site, "node2")];
    let image = signed_in_both(&stores);
    let tag = format!("sha256-{}.sig", image.hex());
    for (store, note) in stores.iter().zip(["newer", "former"]) {
        let manifest = format!(r#"{{"annotations":{{"a":"{note}"}},"layers":[]}}"#);
        let signature = store.manifest("r.io/app", &manifest);
        store.tag("r.io/app", &tag, signature);
    }
    let refused = synced(&site, None).await.unwrap_err();
    assert!(refused.contains(&format!("r.io/app:{tag}: ")), "{refused}");
    let catalog = read(&site).await;
    let before = [0, 1].map(|at| signature_of(&catalog, at, image));
    assert_ne!(before[0], before[1]);
    for (at, from) in ["node2", "node1"].into_iter().enumerate() {
        // Each of both decides once, whichever digest is smaller.
        let decided = before[1 - at];
        synced(&site, Some(from)).await.unwrap();
        let catalog = read(&site).await;
        let now = [0, 1].map(|at| signature_of(&catalog, at, image));
        assert_eq!(now, [decided, decided]);
        stores[0].tag("r.io/app", &tag, before[0]);
        stores[1].tag("r.io/app", &tag, before[1]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn image_that_only_the_second_registry_means_is_in_use() {
    let site = site();
    let [one, two] = [Store(&site, "node1"), Store(&site, "node2")];
    one.image("r.io/app", "v1", "an image");
    let (digest, _) = two.image("r.io/app", "v1", "another image");
    let catalog = read(&site).await;
    let images = catalog.images();
    let image = images.iter().find(|image| image.tag.is_some()).unwrap();
    assert_ne!(image.digest, digest);
    let uses = Uses::of_image(&format!("r.io/app:v1@{digest}"), "pod default/a");
    assert_eq!(uses.of(&catalog, image), ["pod default/a"]);
}

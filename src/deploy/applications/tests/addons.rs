//! Add-ons.

use serde_json::json;

use super::*;

/// Helm creates the namespace before the manifest, and the objects of the site are created when the add-on runs.
#[test]
fn addons_are_installed_with_values_of_kubexm_and_objects_of_the_site() {
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca");
    std::fs::write(&ca, "PEM").unwrap();
    let ca = ca.display();
    let cluster = cluster(
        "",
        &format!(
            "network: {{plugin: none}}\napplications: [{{addon: local-path-provisioner, values: {{storageClass: {{isDefault: false}}}}}}, {{addon: cert-manager, issuer: {{certFile: {ca}, keyFile: {ca}}}}}]"
        ),
    );
    let mut lock = with_applications(&[("cert-manager", "1.2.0")]);
    let missing = with_plan(&cluster, &lock, |inputs| {
        crate::plan(inputs).err().unwrap().to_string()
    });
    assert!(
        missing.contains("add-on local-path-provisioner, a field of spec.addons"),
        "{missing}"
    );
    for artifact in &mut lock.artifacts {
        if artifact.kind == ArtifactKind::Manifest {
            artifact.name = "local-path-storage.yaml".to_owned();
        }
    }
    with_plan(&cluster, &lock, |inputs| {
        let plan = crate::plan(inputs).unwrap().plan;
        let ids: Vec<String> = plan.tasks.iter().map(|task| task.id().0).collect();
        for name in [
            "local-path-provisioner",
            "cert-manager",
            "cert-manager-issuer",
        ] {
            let id = format!("applications/{name}@node1");
            assert!(ids.contains(&id), "{id}: {ids:?}");
        }
        for file in [
            "cert-manager-issuer/templates/objects.yaml",
            "local-path-provisioner/templates/manifests.yaml",
        ] {
            let file = format!("{FOLDER}/{file}");
            assert!(file_of(inputs, "node1", &file).is_some(), "{file}");
        }
    });
    let values: Vec<serde_json::Value> = cluster
        .applications
        .iter()
        .map(|one| values_of(one, Secrets::Read).unwrap())
        .collect();
    assert_eq!(values[0]["storageClass"]["isDefault"], false);
    assert_eq!(values[0]["storageClass"]["reclaimPolicy"], "Delete");
    assert_eq!(values[1]["crds"]["enabled"], true);
    assert_eq!(values[2], json!({"certificate": "PEM", "key": "PEM"}));
    let plain = values_of(&cluster.applications[2], Secrets::LeftOut).unwrap();
    assert_eq!(plain["key"], "hidden");
    let of_charts = values_of_charts(&cluster).unwrap();
    assert_eq!(of_charts.keys().collect::<Vec<_>>(), ["cert-manager"]);
}

#[test]
fn every_addon_has_values_that_are_a_mapping() {
    for addon in kubexm_config::cluster::Addon::ALL {
        let values = addon::values(*addon, &Default::default(), Secrets::Read);
        assert!(values.is_ok(), "{}", addon.name());
    }
}

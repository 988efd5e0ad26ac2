//! `spec.applications`.

use super::*;
use crate::cluster::{ApplicationContent, ValueSource};

fn applications(list: &str) -> Result<Cluster, Problems> {
    read("", &format!("  applications: {list}\n"))
}

#[test]
fn each_application_is_after_those_that_it_needs() {
    let read = applications(
        "[{name: c, chart: c, needs: [b, a]}, {name: a, chart: a}, {name: d, manifests: [d.yaml]}, {name: b, chart: b, needs: [a]}]",
    );
    let read = read.unwrap().applications;
    let names: Vec<&str> = read.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["a", "d", "b", "c"]);
    assert_eq!(read[0].namespace.as_str(), "default");
    assert!(read[0].waits && read[0].timeout.as_secs() == 600);
}

#[test]
fn addons_have_names_namespaces_and_objects_of_the_site() {
    let read = applications(
        "[{name: shop, chart: shop, needs: [metallb]}, {addon: metallb, addresses: [10.0.0.8-10.0.0.9]}, {addon: traefik, name: web, namespace: web}]",
    );
    let read = read.unwrap().applications;
    let names: Vec<_> = read
        .iter()
        .map(|one| (one.name.as_str(), one.namespace.as_str()))
        .collect();
    let expected = [
        ("metallb", "metallb-system"),
        ("metallb-addresses", "metallb-system"),
        ("shop", "default"),
        ("web", "web"),
    ];
    assert_eq!(names, expected);
    let needs: Vec<&str> = read[2].needs.iter().map(|name| name.as_str()).collect();
    assert_eq!(needs, ["metallb", "metallb-addresses"]);
}

#[test]
fn values_are_not_printed() {
    let read = applications("[{name: a, chart: a, values: {password: sesame-2}}]").unwrap();
    let ApplicationContent::Chart { values, .. } = &read.applications[0].content else {
        panic!("it has a chart")
    };
    let own = values.own.as_ref().unwrap();
    assert_eq!(own.0, r#"{"password":"sesame-2"}"#);
    assert!(!format!("{read:?}").contains("sesame-2"));
}

#[test]
fn secret_values_have_paths() {
    let read = applications(
        r"[{name: a, chart: a, secretValues: [{path: a.b\.c, env: A}, {path: d, file: /etc/hostname}]}]",
    );
    let read = read.unwrap().applications;
    let ApplicationContent::Chart { values, .. } = &read[0].content else {
        panic!("it has a chart")
    };
    let paths: Vec<_> = values.secrets.iter().map(|one| one.path.clone()).collect();
    assert_eq!(paths, [vec!["a", "b.c"], vec!["d"]]);
    assert_eq!(
        values.secrets[0].source,
        ValueSource::Variable("A".to_owned())
    );
}

#[test]
fn wrong_applications_are_refused() {
    for (list, path, text) in [
        ("[{chart: a}]", "spec.applications[0].name", "is missing"),
        (
            "[{name: A, chart: a}]",
            "spec.applications[0].name",
            "lower-case letters",
        ),
        (
            "[{name: a}]",
            "spec.applications[0]",
            "one of addon, chart and manifests",
        ),
        (
            "[{name: a, chart: a, manifests: [b.yaml]}]",
            "spec.applications[0]",
            "one of addon, chart and manifests",
        ),
        (
            "[{name: a, manifests: [b.yaml], version: 1.0.0}]",
            "spec.applications[0].version",
            "is not accepted with manifests",
        ),
        (
            "[{name: a, chart: a}, {name: a, chart: b}]",
            "spec.applications[1]",
            "another application has the name a",
        ),
        (
            "[{name: a, chart: a, needs: [b]}]",
            "spec.applications",
            "a needs b, which is not in the list",
        ),
        (
            "[{name: a, chart: a, needs: [b]}, {name: b, chart: b, needs: [a]}]",
            "spec.applications",
            "need each other: a, b",
        ),
        (
            "[{name: a, chart: a, valuesFiles: [/nothing/here]}]",
            "spec.applications[0].valuesFiles",
            "the file /nothing/here does not exist",
        ),
        (
            "[{name: a, manifests: [b.yaml], secretValues: [{path: a, env: A}]}]",
            "spec.applications[0].secretValues",
            "is not accepted with manifests",
        ),
        (
            "[{name: a, chart: a, secretValues: [{path: a}]}]",
            "spec.applications[0].secretValues[0]",
            "either env or file",
        ),
        (
            "[{name: a, chart: a, secretValues: [{path: a, env: A, file: /etc/hostname}]}]",
            "spec.applications[0].secretValues[0]",
            "either env or file",
        ),
        (
            "[{name: a, chart: a, secretValues: [{path: a..b, env: A}]}]",
            "spec.applications[0].secretValues[0].path",
            "with dots between them",
        ),
        (
            "[{name: a, chart: a, secretValues: [{path: 'a[0]', env: A}]}]",
            "spec.applications[0].secretValues[0].path",
            "with dots between them",
        ),
        (
            "[{name: a, chart: a, secretValues: [{path: a, env: $A}]}]",
            "spec.applications[0].secretValues[0].env",
            "expected the name of an environment variable",
        ),
        (
            "[{name: a, chart: a, values: [b]}]",
            "spec.applications[0].values",
            "expected fields",
        ),
        (
            "[{addon: weave}]",
            "spec.applications[0].addon",
            "unknown value 'weave'",
        ),
        (
            "[{addon: traefik, chart: traefik}]",
            "spec.applications[0]",
            "one of addon, chart and manifests",
        ),
        (
            "[{addon: traefik, addresses: [10.0.0.1/32]}]",
            "spec.applications[0].addresses",
            "only accepted with the add-on metallb",
        ),
        (
            "[{addon: cert-manager, issuer: {certFile: /nothing/here, keyFile: /etc/passwd}}]",
            "spec.applications[0].issuer.certFile",
            "the file /nothing/here does not exist",
        ),
        (
            "[{addon: metallb}, {addon: metallb}]",
            "spec.applications[1]",
            "another application has the name metallb",
        ),
    ] {
        let problem = only_problem(applications(list), path, list);
        assert!(
            problem.message.contains(text),
            "{list}: {}",
            problem.message
        );
    }
}

#[test]
fn addons_of_a_bundle_need_helm() {
    let manifest = |spec: &str| {
        let text = format!(
            "apiVersion: kubexm.io/v1alpha1\nkind: Bundle\nmetadata: {{name: a}}\nspec:\n  architectures: [amd64]\n{spec}"
        );
        crate::parse_manifest("bundle.yaml", &text)
    };
    let addons = "  addons: {traefik: \"39.0.0\"}\n";
    let error = manifest(addons).unwrap_err().to_string();
    assert!(
        error.contains("spec.addons") && error.contains("spec.components, as in helm:"),
        "{error}"
    );
    let read = manifest(&format!("{addons}  components: {{helm: \"4.3.1\"}}\n")).unwrap();
    let versions = read
        .addons
        .iter()
        .map(|(addon, version)| format!("{} {version}", addon.name()));
    assert_eq!(versions.collect::<Vec<_>>(), ["traefik 39.0.0"]);
    let error = manifest("  addons: {weave: \"1.0.0\"}\n")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("spec.addons.weave: unknown field"),
        "{error}"
    );
}

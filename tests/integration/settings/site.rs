//! The cluster file of `tests/e2e-site` has every field of the schema, but for those that another one of its fields excludes.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::changed_fields::fields;

const FILE: &str = include_str!("../../lab/site.yaml");

/// Fields that the file does not have, by the beginning of their paths or by their names, and why.
const OTHERS: &[(&str, &str)] = &[
    (".password", "the file has passwordFile"),
    (".passwordEnv", "the file has passwordFile"),
    ("defaults.passwordFile", "the file has privateKeyPath"),
    (
        "defaults.jumpHost.passwordFile",
        "the file has privateKeyPath",
    ),
    (
        "defaults.jumpHost.jumpHost.privateKeyPath",
        "the file has passwordFile",
    ),
    (
        "hosts[].jumpHost.privateKeyPath",
        "the file has passwordFile",
    ),
    (".transport", "without jumpHost: tests/e2e-hosts"),
    ("hosts[].jumpHost.jumpHost.", "the file has it in defaults"),
    ("applications[].", "tests/e2e-apps has them"),
    (
        "containerRuntime.runtimes[].",
        "tests/e2e-runtimes has them",
    ),
    ("controlPlaneEndpoint.host", "alias of domain"),
    ("dns.zones[].name", "the file has names"),
    ("roleGroups.master", "alias of control-plane"),
    ("roleGroups.etcd", "etcd.type systemd only: tests/e2e-etcd"),
    ("etcd.external.", "etcd.type external: tests/e2e-shapes"),
    ("etcd.lockMemory", "etcd.type systemd only"),
    (
        "highAvailability.kubeVip.",
        "another load balancer: tests/e2e-balancers",
    ),
    (
        "highAvailability.nginx.",
        "another load balancer: tests/e2e-balancers",
    ),
    (
        "highAvailability.run",
        "proxies on every node: tests/e2e-balancers",
    ),
    (
        "kubernetes.kubeProxy.extraArgs",
        "kubernetes.type systemd only: tests/e2e-binaries",
    ),
    (
        "kubernetes.scheduler.extraConfig",
        "kubernetes.type systemd only: tests/e2e-settings",
    ),
    ("network.calico.", "another network plugin"),
    ("network.cilium.", "another network plugin"),
    (
        "registry.address",
        "registry.type external: tests/e2e-registries",
    ),
    (
        "registry.caFile",
        "registry.type external: tests/e2e-registries",
    ),
    (
        "registry.passwordFile",
        "registry.type external: tests/e2e-registries",
    ),
    (
        "registry.project",
        "registry.type external: tests/e2e-registries",
    ),
    (
        "registry.username",
        "registry.type external: tests/e2e-registries",
    ),
];

/// Returns whether a row of [`OTHERS`] names a field.
fn is_named(row: &str, field: &str) -> bool {
    match row.chars().next() {
        Some('.') => field.ends_with(row),
        _ if row.ends_with('.') => field.starts_with(row),
        _ => field == row,
    }
}

/// Collects the paths of the fields of a file, as [`fields::of`] returns them.
fn collect(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    found.insert(path.strip_prefix("spec.").unwrap_or(path).to_owned());
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let separator = if path.is_empty() { "" } else { "." };
                collect(value, &format!("{path}{separator}{name}"), found);
                collect(value, &format!("{path}.*"), found);
            }
        }
        Value::Array(items) => {
            for item in items {
                collect(item, &format!("{path}[]"), found);
            }
        }
        _ => {}
    }
}

fn missing(file: &str) -> BTreeSet<String> {
    let schema: Value = serde_json::from_str(&kubexm_config::schema::cluster()).unwrap();
    let file: Value = serde_saphyr::from_str(file).unwrap();
    let mut found = BTreeSet::new();
    collect(&file, "", &mut found);
    let mut missing = fields::of(&schema);
    missing.retain(|field| !found.contains(field));
    missing
}

#[test]
fn file_of_the_site_has_every_field() {
    let missing = missing(FILE);
    let others = |field: &&String| !OTHERS.iter().any(|(row, _)| is_named(row, field));
    let unexplained: Vec<_> = missing.iter().filter(others).collect();
    assert!(
        unexplained.is_empty(),
        "no line of the file has {unexplained:?}"
    );
    for (row, why) in OTHERS {
        let is_needed = missing.iter().any(|field| is_named(row, field));
        assert!(
            is_needed,
            "the file has {row}, or there is no such field ({why})"
        );
    }
}

#[test]
fn suites_that_have_other_fields_name_them() {
    for (row, why) in OTHERS {
        let Some((_, suite)) = why.split_once(": ") else {
            continue;
        };
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(suite);
        let text = std::fs::read_to_string(&path).unwrap();
        let name = row.trim_end_matches('.').rsplit('.').next().unwrap();
        assert!(
            text.contains(&format!("{name}:")),
            "{suite} does not set {name}"
        );
    }
}

#[test]
fn missing_field_is_found() {
    let without = FILE
        .replace("lockMemory", "")
        .replace("    timezone: Asia/Shanghai\n", "");
    assert!(missing(&without).contains("system.timezone"));
}

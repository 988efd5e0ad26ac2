//! The table of changes, and the page of the book with their results.

use std::fmt::Write;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A change of a field; see `table.yaml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub field: String,
    at: Option<String>,
    with: Option<Value>,
    also: Option<Value>,
    from: Option<Value>,
    to: Option<Value>,
    named: Option<String>,
    pub only: Option<String>,
    pub connection: Option<String>,
    pub controller: Option<String>,
    pub later: Option<String>,
    pub kept: Option<String>,
}

/// A row of the page.
pub struct Line {
    pub field: String,
    /// The results with kubeadm and with systemd.
    pub cells: Vec<String>,
    pub reason: Option<String>,
}

/// Returns all changes.
pub fn rows() -> Vec<Row> {
    serde_saphyr::from_str(include_str!("table.yaml")).unwrap()
}

impl Row {
    /// Returns whether a message names the field.
    pub fn is_named_in(&self, message: &str) -> bool {
        message.contains(self.named.as_deref().unwrap_or(&self.field))
    }

    /// Returns the reason why the change has no effect on hosts.
    pub fn reason(&self) -> Option<&str> {
        let reasons = [&self.connection, &self.controller, &self.later, &self.kept];
        reasons.into_iter().flatten().map(String::as_str).next()
    }

    /// Returns the cluster file before or after the change.
    pub fn document(&self, kind: &str, folder: &Path, is_changed: bool) -> String {
        let mut document = json!({
            "apiVersion": "kubexm.io/v1alpha1",
            "kind": "Cluster",
            "metadata": {"name": "demo"},
            "spec": {
                "hosts": [
                    {"name": "node1", "address": "192.0.2.11"},
                    {"name": "node2", "address": "192.0.2.12"},
                    {"name": "node3", "address": "192.0.2.13"},
                ],
                "roleGroups": {"control-plane": ["node1", "node2"], "worker": ["node3"]},
                "kubernetes": {"version": "1.36.3", "type": kind},
                "etcd": {"type": if kind == "kubeadm" { "kubeadm" } else { "systemd" }},
                "highAvailability": {"type": "haproxy"},
            },
        });
        let spec = &mut document["spec"];
        let also = self.also.as_ref().filter(|_| is_changed);
        for more in self.with.iter().chain(also) {
            merge(spec, more);
        }
        let value = if is_changed { &self.to } else { &self.from };
        let place = self.at.clone().unwrap_or_else(|| {
            let first = self.field.replace("[]", "[0]");
            first.replace('*', "harbor:8443")
        });
        match place.strip_prefix("metadata.") {
            Some(place) => set(&mut document["metadata"], place, value.clone()),
            None => set(spec, &place, value.clone()),
        }
        // `DIR` is the directory of the files on the controller. JSON is YAML.
        let text = serde_json::to_string_pretty(&document).unwrap();
        text.replace("DIR/", &format!("{}/", folder.display()))
    }
}

/// Merges a document into another one, by RFC 7396.
fn merge(into: &mut Value, more: &Value) {
    let Some(fields) = more.as_object() else {
        *into = more.clone();
        return;
    };
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    let own = into.as_object_mut().unwrap();
    for (name, value) in fields {
        match value {
            Value::Null => drop(own.remove(name)),
            value => merge(own.entry(name.clone()).or_insert(Value::Null), value),
        }
    }
}

/// Sets or removes the value at a path.
fn set(document: &mut Value, place: &str, value: Option<Value>) {
    let mut steps: Vec<String> = Vec::new();
    for name in place.split('.') {
        let mut parts = name.split(['[', ']']).filter(|part| !part.is_empty());
        steps.push(parts.next().unwrap().to_owned());
        steps.extend(parts.map(|index| format!("[{index}")));
    }
    let (last, steps) = steps.split_last().unwrap();
    let mut at = document;
    for step in steps {
        at = match step.strip_prefix('[') {
            Some(index) => &mut at[index.parse::<usize>().unwrap()],
            None => {
                if at[step].is_null() {
                    at[step] = json!({});
                }
                &mut at[step]
            }
        };
    }
    match value {
        Some(value) => at[last] = value,
        None => drop(at.as_object_mut().unwrap().remove(last)),
    }
}

/// The notice at the top of the page.
const HEAD: &str = "<!-- Generated from the code. Do not edit; run: UPDATE_REFERENCE=1 cargo test -p kubexm --test integration changed_fields -->

# Changed fields

This table shows what an install does with a changed field of the cluster file if the cluster exists. A test changes each field
of the schema on simulated hosts, with `kubernetes.type` kubeadm and systemd. [From a changed setting to a running
cluster](../architecture/changes.md) explains how.

| result | meaning |
| --- | --- |
| applied | the install changes the hosts |
| refused | preflight refuses the change, and no host changes |
| reported | existing nodes keep the former value; the install names the host, the field and the action |
| later | the field has an effect only when a node or a certificate is created |
| controller | only kubexm reads the field |
| connection | the field states how kubexm reaches hosts |
| kept | hosts keep what they have; the note states why |
| – | the other type of `kubernetes.type` has the field |

\"Taken back\" is the same change in the other direction, where it has another result.

| field | kubeadm | systemd | note |
| --- | --- | --- | --- |
";

/// Compares the page of the book with the results, or writes it.
pub fn compare_page(lines: &[Line]) {
    let mut text = HEAD.to_owned();
    for line in lines {
        let reason = line.reason.as_deref().unwrap_or_default();
        let (field, cells) = (&line.field, line.cells.join(" | "));
        writeln!(text, "| `{field}` | {cells} | {reason} |").unwrap();
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut folder = folder.filter(|path| path.join("docs/book.toml").exists());
    let page = folder
        .next()
        .unwrap()
        .join("docs/src/reference/changed-fields.md");
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(&page, &text).unwrap();
    }
    let found = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(
        found == text,
        "{} differs from the results; run: UPDATE_REFERENCE=1 cargo test -p kubexm --test integration \
         changed_fields",
        page.display()
    );
}

#[test]
fn values_are_set_in_lists_and_maps_and_removed() {
    let mut document = json!({"hosts": [{"name": "a"}, {"name": "b"}]});
    set(&mut document, "hosts[1].name", Some(json!("c")));
    set(&mut document, "dns.replicas", Some(json!(2)));
    set(&mut document, "hosts[0].name", None);
    merge(
        &mut document,
        &json!({"dns": {"replicas": null, "zones": []}}),
    );
    assert_eq!(
        document,
        json!({"hosts": [{}, {"name": "c"}], "dns": {"zones": []}})
    );
}

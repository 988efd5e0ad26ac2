//! Every command, found through its manual page: help with examples, and `--output json` by the schema.

use std::collections::BTreeSet;

use super::*;
use serde_json::Value;

/// What a command prints with `--output json`.
enum Prints {
    /// One document of this kind.
    Document(&'static str),
    /// Events, one per line.
    Events,
    /// The same as without the option: a script, a template, a schema, an SBOM.
    Text,
}
use Prints::{Document, Events, Text};

/// The words of every command that has no commands below it.
fn commands() -> BTreeSet<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    run(&["man", &folder.path().display().to_string()]);
    let pages = names(folder.path());
    let pages: Vec<&str> = pages
        .iter()
        .map(|page| page.strip_suffix(".1").unwrap())
        .filter(|page| !page.ends_with("-help") && !page.contains("-help-"))
        .collect();
    let is_leaf = |page: &&&str| {
        let below = format!("{page}-");
        !pages.iter().any(|other| other.starts_with(&below))
    };
    let leaves = pages.iter().filter(is_leaf);
    // A name with a hyphen is one word.
    let hyphenated = [
        "support-bundle",
        "find-images",
        "rotate-ca",
        "rotate-sa-key",
    ];
    leaves
        .map(|page| {
            let joined = |page: String, name: &&str| page.replace(*name, &name.replace('-', "_"));
            hyphenated.iter().fold((*page).to_owned(), joined)
        })
        .map(|page| {
            let words = page.split('-').skip(1);
            words.map(|word| word.replace('_', "-")).collect()
        })
        .collect()
}

fn schema() -> Value {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../manifests/schema/output.json"
    );
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Where a value differs from a schema. Fields that the schema does not have are differences, too: each is
/// documented.
fn differences(root: &Value, schema: &Value, value: &Value, path: &str) -> Vec<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.strip_prefix("#/$defs/").unwrap();
        return differences(root, &root["$defs"][name], value, path);
    }
    if let Some(branches) = schema["oneOf"].as_array() {
        let found = branches
            .iter()
            .map(|branch| differences(root, branch, value, path));
        return found.min_by_key(Vec::len).unwrap();
    }
    let mut found = Vec::new();
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the schema has the type {other}"),
    };
    let fits = match (&schema["type"], &schema["enum"], &schema["const"]) {
        (Value::String(name), ..) => is(name),
        (Value::Array(names), ..) => names.iter().any(|name| is(name.as_str().unwrap())),
        (_, Value::Array(values), _) => values.contains(value),
        (.., expected) => expected == value,
    };
    let has_digest = schema["pattern"].is_null()
        || value
            .as_str()
            .is_some_and(|text| text.parse::<Digest>().is_ok());
    if !fits || !has_digest {
        found.push(format!("{path}: {value}"));
    }
    let properties = schema["properties"].as_object();
    if let (Some(fields), Some(properties)) = (value.as_object(), properties) {
        for (name, inner) in fields {
            match properties.get(name) {
                Some(schema) => {
                    found.extend(differences(root, schema, inner, &format!("{path}.{name}")));
                }
                None => found.push(format!("{path}.{name}: unknown")),
            }
        }
        let required = schema["required"].as_array().into_iter().flatten();
        let missing = required.filter(|name| !fields.contains_key(name.as_str().unwrap()));
        found.extend(missing.map(|name| format!("{path}.{name}: missing")));
    }
    for inner in value.as_array().into_iter().flatten() {
        found.extend(differences(root, &schema["items"], inner, path));
    }
    found
}

#[track_caller]
fn assert_documented(document: &Value) {
    let schema = schema();
    let kind = document["kind"].as_str().unwrap_or("none");
    let definition = &schema["$defs"][kind];
    assert!(
        definition.is_object(),
        "kind {kind} is not in the schema: {document}"
    );
    let found = differences(&schema, definition, document, kind);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn schema_of_json_documents_finds_differences() {
    let text =
        r#"{"apiVersion": "output.kubexm.io/v1", "kind": "Error", "exitCode": 3, "message": "x"}"#;
    let right: Value = serde_json::from_str(text).unwrap();
    assert_documented(&right);
    for (field, wrong) in [
        ("exitCode", "3".into()),
        ("apiVersion", "v2".into()),
        ("more", 1.into()),
    ] {
        let mut document = right.clone();
        document[field] = wrong;
        let schema = schema();
        let found = differences(&schema, &schema["$defs"]["Error"], &document, "Error");
        assert_eq!(found.len(), 1, "{field}: {found:?}");
    }
}

#[test]
fn every_documented_json_document_fits_the_schema() {
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/src/reference/output.md"
    );
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```json\n").skip(1);
    let mut kinds = BTreeSet::new();
    for block in blocks {
        let (block, _) = block.split_once("```").unwrap();
        let document: Value = serde_json::from_str(block).unwrap();
        assert_documented(&document);
        kinds.insert(document["kind"].as_str().unwrap().to_owned());
    }
    let schema = schema();
    let defined = schema["oneOf"].as_array().unwrap().iter();
    let defined = defined.map(|kind| kind["$ref"].as_str().unwrap());
    let defined: BTreeSet<String> = defined
        .map(|name| name.strip_prefix("#/$defs/").unwrap().to_owned())
        .collect();
    assert_eq!(kinds, defined);
}

/// A cluster whose host refuses connections.
const UNREACHABLE: &str = "
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {name: example}
spec:
  hosts: [{name: node1, address: 127.0.0.1, internalAddress: 192.0.2.11, port: 1}]
  roleGroups: {control-plane: [node1]}
  kubernetes: {version: 1.36.3}
";

#[test]
fn every_command_prints_documented_json() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let small = bundle(folder.path(), 2).display().to_string();
    for kind in ["cluster", "bundle", "mirrors"] {
        std::fs::write(at(kind), run(&["config", "init", kind]).1).unwrap();
    }
    let list = at("images.txt");
    std::fs::write(&list, "docker.io/library/nginx:1.29\n").unwrap();
    let (cluster, manifest, cache) = (at("cluster"), at("bundle"), at("cache"));
    let (new, archive, gone) = (at("new"), at("support.tar.zst"), "/nowhere".to_owned());
    let unreachable = at("unreachable");
    std::fs::write(&unreachable, UNREACHABLE).unwrap();
    let cases: Vec<(&str, Prints, Vec<&str>)> = vec![
        // Files that are not there end these commands early, but not before their last event.
        ("bundle build", Events, vec!["-f", &gone, "-o", &new]),
        ("bundle lock", Events, vec!["-f", &gone, "-o", &new]),
        (
            "bundle add",
            Events,
            vec![&gone, "--image", "a.example/b:1", "-o", &new],
        ),
        (
            "bundle remove",
            Events,
            vec![&small, "part0001", "-o", &new],
        ),
        ("bundle merge", Events, vec![&gone, &gone, "-o", &new]),
        ("bundle export", Events, vec![&gone, "--oci-layout", &new]),
        (
            "bundle split",
            Events,
            vec![
                &small,
                "--size",
                "8192",
                "-o",
                folder.path().to_str().unwrap(),
            ],
        ),
        ("bundle join", Events, vec![&gone, "-o", &new]),
        ("bundle push", Events, vec![&gone, "oci://127.0.0.1:1/x"]),
        (
            "bundle pull",
            Events,
            vec!["oci://127.0.0.1:1/x:1", "-o", &new, "--cache", &cache],
        ),
        ("bundle sign", Events, vec![&gone, "--key", &gone]),
        ("install", Events, vec![&gone, "-f", &cluster, "--unsigned"]),
        ("upgrade", Events, vec![&gone, "-f", &cluster, "--unsigned"]),
        (
            "node add",
            Events,
            vec!["node5", "--bundle", &gone, "-f", &cluster, "--unsigned"],
        ),
        (
            "node remove",
            Events,
            vec!["node5", "--bundle", &gone, "-f", &cluster, "--unsigned"],
        ),
        (
            "node replace",
            Events,
            vec!["node5", "--bundle", &gone, "-f", &cluster, "--unsigned"],
        ),
        ("reset", Events, vec!["-f", &cluster]),
        ("certs renew", Events, vec!["-f", &cluster, "--state", &new]),
        (
            "certs rotate-ca",
            Events,
            vec!["-f", &cluster, "--state", &new],
        ),
        (
            "certs rotate-sa-key",
            Events,
            vec!["-f", &cluster, "--state", &new],
        ),
        (
            "app apply",
            Events,
            vec!["-f", &cluster, "--bundle", &gone, "--unsigned"],
        ),
        (
            "app diff",
            Document("Error"),
            vec!["shop", "-f", &cluster, "--bundle", &gone],
        ),
        ("app list", Document("Error"), vec!["-f", &gone]),
        (
            "app remove",
            Events,
            vec!["shop", "--yes", "-f", &cluster, "--state", &new],
        ),
        (
            "app values",
            Document("Error"),
            vec!["shop", "-f", &cluster, "--bundle", &gone],
        ),
        ("registry seed", Events, vec![&gone, "-f", &cluster]),
        ("registry list", Document("Error"), vec!["-f", &gone]),
        (
            "registry add",
            Events,
            vec!["-f", &cluster, "--bundle", &gone, "--unsigned"],
        ),
        (
            "registry sync",
            Events,
            vec!["-f", &cluster, "--state", &new],
        ),
        (
            "registry remove",
            Events,
            vec!["example.com/app:v1", "-f", &cluster, "--state", &new],
        ),
        ("registry gc", Events, vec!["-f", &cluster, "--state", &new]),
        (
            "registry move",
            Events,
            vec![
                "--to",
                "node2",
                "-f",
                &cluster,
                "--bundle",
                &gone,
                "--unsigned",
            ],
        ),
        ("bundle inspect", Document("BundleInspection"), vec![&small]),
        ("bundle list", Document("BundleContents"), vec![&small]),
        (
            "bundle verify",
            Document("BundleVerification"),
            vec![&small],
        ),
        (
            "bundle diff",
            Document("BundleComparison"),
            vec![&small, &small],
        ),
        ("bundle outdated", Document("Error"), vec![&gone]),
        ("bundle find-images", Document("FoundImages"), vec![&list]),
        (
            "bundle sbom",
            Document("SbomFile"),
            vec![&small, "-o", &new],
        ),
        (
            "bundle vulnerabilities",
            Document("Error"),
            vec![&small, "--database", &gone],
        ),
        (
            "bundle extract",
            Document("ExtractedFiles"),
            vec![&small, "part0001", "-o", folder.path().to_str().unwrap()],
        ),
        (
            "bundle keygen",
            Document("KeyFiles"),
            vec!["--no-password", &new],
        ),
        ("plan", Document("Error"), vec![&small, "-f", &cluster]),
        (
            "status",
            Document("StatusReport"),
            vec!["-f", &unreachable, "--state", &gone],
        ),
        (
            "doctor",
            Document("DoctorReport"),
            vec!["-f", &unreachable, "--state", &gone],
        ),
        (
            "support-bundle",
            Document("SupportBundle"),
            vec!["-f", &unreachable, "--state", &gone, "-o", &archive],
        ),
        (
            "certs check",
            Document("CertificateReport"),
            vec!["-f", &unreachable, "--state", &gone],
        ),
        (
            "certs timer install",
            Events,
            vec!["-f", &cluster, "--state", &new],
        ),
        (
            "certs timer run",
            Events,
            vec!["-f", &cluster, "--state", &new],
        ),
        (
            "certs timer status",
            Document("Timer"),
            vec!["-f", &cluster, "--state", folder.path().to_str().unwrap()],
        ),
        (
            "certs timer remove",
            Events,
            vec!["-f", &cluster, "--state", &new],
        ),
        (
            "backup timer install",
            Events,
            vec!["-f", &cluster, "--state", &new, "--recipient", "age1"],
        ),
        (
            "backup timer run",
            Events,
            vec!["-f", &cluster, "--state", &new, "--recipient", "age1"],
        ),
        (
            "backup timer status",
            Document("Timer"),
            vec!["-f", &cluster, "--state", folder.path().to_str().unwrap()],
        ),
        (
            "backup timer remove",
            Events,
            vec!["-f", &cluster, "--state", &new],
        ),
        (
            "backup create",
            Events,
            vec!["-f", &cluster, "--recipient", "age1", "--state", &new],
        ),
        (
            "backup restore",
            Events,
            vec![
                &gone,
                "-f",
                &cluster,
                "--bundle",
                &gone,
                "--identity",
                &gone,
                "--yes",
            ],
        ),
        (
            "backup list",
            Document("BackupList"),
            vec![folder.path().to_str().unwrap()],
        ),
        (
            "backup verify",
            Document("Error"),
            vec![&gone, "--identity", &gone],
        ),
        (
            "conformance",
            Document("Error"),
            vec![&small, "-f", &cluster, "--unsigned"],
        ),
        ("exec", Document("Error"), vec!["-f", &gone, "--", "true"]),
        ("logs", Document("Error"), vec!["kubelet", "-f", &gone]),
        (
            "kubeconfig",
            Document("Error"),
            vec!["anna", "-f", &gone, "-o", &new],
        ),
        (
            "render",
            Document("Error"),
            vec![&small, "-f", &cluster, "-o", &new],
        ),
        (
            "inventory",
            Document("InventoryReport"),
            vec![&small, "-o", &new],
        ),
        (
            "cache ls",
            Document("CacheContents"),
            vec!["--cache", &cache],
        ),
        (
            "cache verify",
            Document("CacheVerification"),
            vec!["--cache", &cache],
        ),
        (
            "cache gc",
            Document("CacheCollection"),
            vec!["--cache", &cache, "--all"],
        ),
        ("config validate", Document("Validation"), vec![&manifest]),
        ("version", Document("Version"), vec![]),
        (
            "man",
            Document("ManualPages"),
            vec![folder.path().to_str().unwrap()],
        ),
        ("config init", Text, vec![]),
        ("config schema", Text, vec![]),
        ("completions", Text, vec!["bash"]),
    ];
    let covered = cases.iter();
    let covered: BTreeSet<Vec<String>> = covered
        .map(|(command, ..)| command.split(' ').map(str::to_owned).collect())
        .collect();
    assert_eq!(covered, commands(), "each command needs a case");
    for (command, prints, arguments) in cases {
        let words: Vec<&str> = command.split(' ').collect();
        let (_, help, _) = run(&[&words[..], &["--help"]].concat());
        assert!(help.contains("\nExamples:\n"), "{command}: {help}");
        let json = ["--output", "json"];
        let (_, out, err) = run(&[&words[..], &json, &arguments].concat());
        match prints {
            Text => assert!(!out.is_empty(), "{command}"),
            Document(kind) => {
                let document: Value = serde_json::from_str(&out).unwrap_or_else(|error| {
                    panic!("{command}: {error}: {out}{err}");
                });
                assert_eq!(document["kind"], kind, "{command}: {document}");
                assert_documented(&document);
            }
            Events => {
                let parse = |line: &str| serde_json::from_str::<Value>(line);
                let events: Result<Vec<Value>, _> = out.lines().map(parse).collect();
                let events = events.unwrap_or_else(|error| panic!("{command}: {error}: {out}"));
                assert_documented_events(command, &events);
            }
        }
    }
}

/// Each event has a time and a section in the reference, and the last one is `end`.
fn assert_documented_events(command: &str, events: &[Value]) {
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/src/reference/events.md"
    );
    let page = std::fs::read_to_string(page).unwrap();
    for event in events {
        let name = event["event"].as_str().unwrap();
        assert!(
            page.contains(&format!("\n## {name}\n")),
            "{command}: {event}"
        );
        assert!(event["time"].is_string(), "{command}: {event}");
    }
    let last = events.last().unwrap();
    assert_eq!(last["event"], "end", "{command}");
}

//! The page of the book that lists settings, their fields and their tests: what it names exists.

use std::path::{Path, PathBuf};

use serde_json::Value;

const PAGE: &str = "docs/src/reference/settings-coverage.md";
const SNAPSHOTS: &str = "tests/golden/snapshots/rendered";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the form of a schema that has fields, if there are several.
fn object(schema: &Value) -> &Value {
    let forms = schema["oneOf"].as_array();
    let object = forms.and_then(|forms| forms.iter().find(|form| form["type"] == "object"));
    object.unwrap_or(schema)
}

/// Returns whether the schema has a field, as in `spec.hosts[].name`. A map has every name, and so has the file of
/// another program.
fn has_field(schema: &Value, path: &str) -> bool {
    let mut at = object(schema);
    for part in path.split('.') {
        let name = part.strip_suffix("[]").unwrap_or(part);
        let (fixed, other) = (&at["properties"][name], &at["additionalProperties"]);
        at = match (fixed, other) {
            (Value::Object(_), _) => object(fixed),
            (_, Value::Bool(true)) => return true,
            // The names of such a map may have dots.
            (_, Value::Object(values)) if !values.contains_key("properties") => return true,
            (_, Value::Object(_)) => object(other),
            _ => return false,
        };
        if name != part {
            at = object(&at["items"]);
            if at.is_null() {
                return false;
            }
        }
    }
    true
}

/// Returns the code spans of a text.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns what is wrong with the tests of a row: items as in "`file`: `test`, `test`", with "; " between them.
fn wrong_tests(cell: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for item in cell.split("; ") {
        let mut spans = spans(item);
        let (file, names) = (spans.next().unwrap_or_default(), spans.collect::<Vec<_>>());
        let path = if file.ends_with(".snap") {
            root().join(SNAPSHOTS).join(file)
        } else {
            root().join(file)
        };
        let Ok(text) = std::fs::read_to_string(path) else {
            wrong.push(format!("{file} does not exist"));
            continue;
        };
        if names.is_empty() {
            wrong.push(format!("no test of {file} is named"));
        }
        for name in names {
            let exists = if file.ends_with(".snap") {
                text.contains(name)
            } else if file.ends_with(".rs") {
                text.contains(&format!("fn {name}()"))
            } else {
                let lines = [
                    format!("check \"{name}"),
                    format!("must \"{name}"),
                    format!("fault {name} "),
                ];
                lines.iter().any(|line| text.contains(line))
            };
            if !exists {
                wrong.push(format!("{file} does not have {name}"));
            }
        }
    }
    wrong
}

/// Returns what a page names that does not exist, and the number of rows with tests.
fn check(page: &str) -> (Vec<String>, usize) {
    let schema = kubexm_config::schema::cluster();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let (mut wrong, mut rows, mut has_tests) = (Vec::new(), 0, false);
    for (number, line) in page.lines().enumerate() {
        let mut add = |problem: String| wrong.push(format!("line {}: {problem}", number + 1));
        for field in spans(line).filter(|span| span.starts_with("spec.")) {
            if !has_field(&schema, field) {
                add(format!("the cluster file has no field {field}"));
            }
        }
        let Some(row) = line
            .strip_prefix("| ")
            .and_then(|line| line.strip_suffix(" |"))
        else {
            has_tests = false;
            continue;
        };
        let last = row.rsplit(" | ").next().unwrap_or_default();
        match last {
            "tests" => has_tests = true,
            "---" => {}
            _ if has_tests => {
                rows += 1;
                wrong_tests(last).into_iter().for_each(add);
            }
            _ => {}
        }
    }
    (wrong, rows)
}

#[test]
fn settings_and_tests_of_the_page_exist() {
    let page = std::fs::read_to_string(root().join(PAGE)).unwrap();
    let (wrong, rows) = check(&page);
    assert!(wrong.is_empty(), "{PAGE}: {wrong:#?}");
    assert!(rows > 150, "only {rows} rows have tests");
}

#[test]
fn what_a_page_names_wrongly_is_found() {
    let suite = "`tests/e2e-settings`: `nothing listens at port 6443`";
    let snapshot = "`etc_kubexm_kubeadm-init.yaml@settings.snap`: `certSANs:`";
    let right = [
        ("`spec.kubernetes.apiServer.port`", suite),
        ("`spec.hosts[].labels`", snapshot),
        ("`spec.kubernetes.kubelet.extraConfig.maxPods`", suite),
        ("`spec.system.sysctl.net.ipv4.ip_forward`", suite),
        ("`spec.containerRuntime.registries.*.mirrors`", suite),
        ("`spec.controlPlaneEndpoint.domain`", suite),
        (
            "always",
            "`src/deploy/os.rs`: `modules_and_names_of_the_user_follow_those_of_the_cluster`",
        ),
    ];
    let wrong = [
        ("`spec.kubernetes.apiServer.prot`", suite),
        ("`spec.hosts.name`", suite),
        ("`spec.roleGroups[].worker`", suite),
        ("`spec.containerRuntime.registries.*.mirror`", suite),
        ("always", "`tests/e2e-settings`: `no such check`"),
        ("always", "`tests/e2e-none`: `no such check`"),
        ("always", "`etc_none.snap`: `certSANs:`"),
        (
            "always",
            "`etc_kubexm_kubeadm-init.yaml@settings.snap`: `no such line`",
        ),
        ("always", "`src/deploy/os.rs`: `no_such_test`"),
        ("always", "`src/deploy/os.rs`"),
        ("always", "not yet"),
    ];
    let page = |(field, tests): (&str, &str)| {
        format!("| setting | field | tests |\n| --- | --- | --- |\n| a | {field} | {tests} |\n")
    };
    for row in right {
        assert_eq!(check(&page(row)), (Vec::new(), 1), "{row:?}");
    }
    for row in wrong {
        assert_eq!(check(&page(row)).0.len(), 1, "{row:?}");
    }
}

//! The crates of the workspace, their imports, and `src/README.md`, which lists both.
//!
//! `KUBEXM_UPDATE=1 cargo test -p kubexm --test integration workspace` rewrites the generated parts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Every package of the dependency graph with the names of the linked packages, without development
/// dependencies.
struct Graph {
    /// Names of the workspace's packages by identifier.
    members: BTreeMap<String, String>,
    /// Names by identifier, dependencies included.
    names: BTreeMap<String, String>,
    /// Identifiers of direct dependencies by identifier.
    uses: BTreeMap<String, Vec<String>>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

impl Graph {
    fn of_workspace() -> Self {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--locked"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
        let list = |value: &Value| value.as_array().unwrap().clone();
        let names: BTreeMap<String, String> = list(&metadata["packages"])
            .iter()
            .map(|package| (text(&package["id"]), text(&package["name"])))
            .collect();
        let is_linked = |dependency: &Value| {
            let kinds = list(&dependency["dep_kinds"]);
            kinds.iter().any(|kind| kind["kind"].is_null())
        };
        let uses = list(&metadata["resolve"]["nodes"])
            .iter()
            .map(|node| {
                let linked = list(&node["deps"]).into_iter().filter(is_linked);
                (
                    text(&node["id"]),
                    linked.map(|dep| text(&dep["pkg"])).collect(),
                )
            })
            .collect();
        let members = list(&metadata["workspace_members"])
            .iter()
            .map(|id| (text(id), names[&text(id)].clone()))
            .collect();
        Self {
            members,
            names,
            uses,
        }
    }

    /// Returns the crates of the workspace, as directories of `src`, with the crates that each imports.
    fn crates(&self) -> BTreeMap<String, BTreeSet<String>> {
        let folder = |id: &String| {
            let name = self.members.get(id)?;
            Some(name.strip_prefix("kubexm-").unwrap_or(name).to_owned())
        };
        let members = self.members.keys();
        members
            .map(|id| {
                let uses = self.uses[id].iter().filter_map(folder).collect();
                (folder(id).unwrap(), uses)
            })
            .collect()
    }

    /// Returns the names of all packages that a crate of the workspace links, directly or not.
    fn linked(&self, name: &str) -> BTreeSet<String> {
        let start = self.members.iter().find(|(_, member)| *member == name);
        let mut open = vec![start.unwrap().0.clone()];
        let mut seen = BTreeSet::new();
        while let Some(id) = open.pop() {
            if seen.insert(id.clone()) {
                open.extend(self.uses[&id].iter().cloned());
            }
        }
        seen.iter().map(|id| self.names[id].clone()).collect()
    }
}

/// Returns the crates by the length of the longest chain of imports below them, the longest first.
fn floors(crates: &BTreeMap<String, BTreeSet<String>>) -> String {
    fn height(name: &str, crates: &BTreeMap<String, BTreeSet<String>>) -> usize {
        let below = crates[name].iter().map(|used| height(used, crates) + 1);
        below.max().unwrap_or(0)
    }
    let mut floors: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for name in crates.keys() {
        floors.entry(height(name, crates)).or_default().push(name);
    }
    let lines = floors.values().rev().map(|floor| floor.join("   "));
    lines.collect::<Vec<_>>().join("\n   │\n") + "\n"
}

fn page() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../README.md")
}

/// Returns the page with the third column of its table and its diagram filled in.
fn generated(page: &str, crates: &BTreeMap<String, BTreeSet<String>>) -> String {
    let mut listed = BTreeSet::new();
    let mut lines = Vec::new();
    let mut in_diagram = false;
    for line in page.lines() {
        let name = line
            .strip_prefix("| `")
            .and_then(|rest| rest.split('`').next());
        if let Some(name) = name {
            let uses = crates
                .get(name)
                .unwrap_or_else(|| panic!("no crate {name}"));
            let uses: Vec<String> = uses.iter().map(|used| format!("`{used}`")).collect();
            let purpose = line.split(" | ").nth(1).unwrap().trim_end_matches(" |");
            let uses = if uses.is_empty() {
                "nothing".to_owned()
            } else {
                uses.join(", ")
            };
            lines.push(format!("| `{name}` | {purpose} | {uses} |"));
            listed.insert(name.to_owned());
        } else if line == "```text" {
            in_diagram = true;
            lines.push(format!("{line}\n{}```", floors(crates)));
        } else if in_diagram {
            in_diagram = line != "```";
        } else {
            lines.push(line.to_owned());
        }
    }
    let all: BTreeSet<String> = crates.keys().cloned().collect();
    assert_eq!(listed, all, "src/README.md lists every crate once");
    lines.join("\n") + "\n"
}

#[test]
fn src_readme_lists_all_crates_and_their_imports() {
    let crates = Graph::of_workspace().crates();
    let page_text = std::fs::read_to_string(page()).unwrap();
    let expected = generated(&page_text, &crates);
    if std::env::var_os("KUBEXM_UPDATE").is_some() {
        std::fs::write(page(), &expected).unwrap();
        return;
    }
    assert!(
        page_text == expected,
        "src/README.md differs from `cargo metadata`; \
         KUBEXM_UPDATE=1 cargo test -p kubexm --test integration workspace rewrites it"
    );
}

#[test]
fn crates_that_install_link_no_http_client() {
    let graph = Graph::of_workspace();
    for name in ["deploy", "engine", "host", "pki", "preflight", "render"] {
        let linked = graph.linked(&format!("kubexm-{name}"));
        for client in ["reqwest", "oci-client", "kubexm-fetch"] {
            assert!(!linked.contains(client), "{name} links {client}");
        }
    }
}

#[test]
fn fetch_does_not_link_host_crates() {
    let linked = Graph::of_workspace().linked("kubexm-fetch");
    for other in ["kubexm-host", "kubexm-engine", "kubexm-deploy", "russh"] {
        assert!(!linked.contains(other), "fetch links {other}");
    }
}

/// Files whose URLs have no login: locks and the catalog, and artifacts, which refuse one.
const WITHOUT_LOGIN: [&str; 4] = [
    "bundle/lock/",
    "catalog/component.rs",
    "fetch/file_signatures.rs",
    "types/artifact.rs",
];

/// Returns the source files below `src/` with their names there.
fn sources() -> Vec<(String, String)> {
    let top = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders = vec![top.clone()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(&top).unwrap().display().to_string();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") {
                found.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

/// Returns the lines of a source file, before its tests, that look for a hint in a text.
fn searches_for_hints(text: &str) -> Vec<&str> {
    let code = text.rsplit_once("\n#[cfg(test)]");
    let code = code.map_or(text, |(code, _)| code);
    let searches = [
        "contains",
        "find",
        "matches",
        "split",
        "split_once",
        "starts_with",
        "strip_prefix",
    ];
    let is_search = |line: &&str| {
        let line = line.replace("\\n", "");
        let mut calls = searches.iter().map(|name| format!("{name}(\"hint:"));
        calls.any(|call| line.contains(&call))
    };
    code.lines().filter(is_search).collect()
}

/// A message has its hint in a field.
#[test]
fn code_does_not_look_for_hints_in_texts() {
    let planted = "fn a(b: &str) -> bool { b.contains(\"\\nhint: \") }\n#[cfg(test)]\nmod tests { x.find(\"hint:\") }";
    assert_eq!(searches_for_hints(planted).len(), 1);
    let is_test = |name: &str| name.ends_with("tests.rs") || name.contains("/tests/");
    let code = sources().into_iter().filter(|(name, _)| !is_test(name));
    let found: Vec<String> = code
        .filter_map(|(name, text)| Some(format!("{name}: {}", searches_for_hints(&text).first()?)))
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// Returns the types of a source file that derive `Debug` and have a URL in a field.
fn debug_of_urls(text: &str) -> Vec<String> {
    let is_url = |line: &str| {
        let words = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        !line.trim_start().starts_with("//") && words.into_iter().any(|word| word == "Url")
    };
    let mut found = Vec::new();
    for item in text.split("#[derive(").skip(1) {
        let (derives, rest) = item.split_once(")]").unwrap();
        let body = rest.split("\n}").next().unwrap_or_default();
        let is_type = |line: &str| line.contains("struct ") || line.contains("enum ");
        let Some(name) = body.lines().find(|line| is_type(line)) else {
            continue;
        };
        let ends_at_once = name.trim_end().ends_with(';');
        let fields = if ends_at_once { name } else { body };
        if derives.contains("Debug") && fields.lines().any(is_url) {
            found.push(name.trim().to_owned());
        }
    }
    found
}

#[test]
fn types_with_urls_that_may_contain_a_login_do_not_derive_debug() {
    let planted = "#[derive(Debug, Clone)]\nstruct A {\n    url: url::Url,\n}\n\
                   #[derive(Clone)]\nstruct B {\n    url: Url,\n}\n\
                   #[derive(Debug)]\nstruct C(Url);\n#[derive(Debug)]\nstruct D(LoginUrl);\n";
    assert_eq!(debug_of_urls(planted), ["struct A {", "struct C(Url);"]);

    let mut found = Vec::new();
    for (name, text) in sources() {
        if !WITHOUT_LOGIN.iter().any(|safe| name.starts_with(safe)) {
            let types = debug_of_urls(&text).into_iter();
            found.extend(types.map(|shown| format!("{name}: {shown}")));
        }
    }
    assert!(
        found.is_empty(),
        "use LoginUrl or ShownUrl, or write Debug by hand: {found:#?}"
    );
}

/// The table of the security review names tests that exist.
#[test]
fn tests_of_the_security_review_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/src/architecture/proven.md")).unwrap();
    let section = page.split("## Findings of the security review").nth(1);
    let section = section.unwrap().split("\n## ").next().unwrap();
    let (mut names, mut rows) = (0, BTreeSet::new());
    for row in section
        .lines()
        .filter(|line| line.starts_with("| A") || line.starts_with("| B"))
    {
        let cells: Vec<&str> = row.split(" | ").collect();
        let finding = cells[0].trim_start_matches("| ").split(':').next().unwrap();
        rows.insert(finding.to_owned());
        for tests in cells[2].trim_end_matches(" |").split("; ") {
            let mut quoted = tests.split('`').skip(1).step_by(2);
            let first = quoted.next().unwrap();
            // A list of suites has no names of tests.
            let Some(file) = tests.contains("`: `").then_some(first) else {
                continue;
            };
            let text = std::fs::read_to_string(root.join(file)).expect(file);
            for name in quoted {
                names += 1;
                assert!(
                    text.contains(&format!("fn {name}()")),
                    "{file} has no test {name}"
                );
            }
        }
    }
    let expected: BTreeSet<String> = (1..=16)
        .map(|number| format!("A{number}"))
        .chain(["B".to_owned()])
        .collect();
    assert_eq!(rows, expected);
    assert!(names > 60, "only {names} tests were compared");
}

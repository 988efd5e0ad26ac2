//! Generates the reference pages of the book (`docs/src/reference`) and compares them with the files.
//! `UPDATE_REFERENCE=1 cargo test -p kubexm reference_pages` writes them.

mod commands;
mod events;
mod examples;
mod output;
mod schemas;
mod table;

use std::path::{Path, PathBuf};

use self::table::escaped;
use super::exit;
use kubexm_config::schema;
use kubexm_types::ErrorKind;

/// The notice at the top of each page.
const GENERATED: &str = "<!-- Generated from the code. Do not edit; run: UPDATE_REFERENCE=1 cargo test -p kubexm reference_pages -->";

/// Every generated page: file name and content.
fn pages() -> Vec<(&'static str, String)> {
    let page = |title: &str, body: String| format!("{GENERATED}\n\n# {title}\n\n{body}");
    vec![
        ("cli.md", page("Commands", commands::page())),
        ("exit-codes.md", page("Exit codes", exit_codes())),
        ("events.md", page("Events", events::page())),
        ("output.md", page("JSON documents", output::page())),
        (
            "cluster.md",
            page(
                "Cluster file",
                schemas::page(&schemas::CLUSTER, &schema::cluster()),
            ),
        ),
        (
            "manifest.md",
            page(
                "Bundle manifest",
                schemas::page(&schemas::MANIFEST, schema::BUNDLE),
            ),
        ),
        (
            "mirrors.md",
            page(
                "Mirror file",
                schemas::page(&schemas::MIRRORS, schema::MIRRORS),
            ),
        ),
    ]
}

fn exit_codes() -> String {
    let mut rows = "| 0 | | success |\n".to_owned();
    for kind in ErrorKind::ALL {
        let (code, meaning) = exit::code(kind);
        let name = serde_json::to_string(&kind).unwrap_or_default();
        let name = name.trim_matches('"');
        rows += &format!("| {code} | `{name}` | {} |\n", escaped(meaning));
    }
    format!(
        "{EXIT_CODES}\n\n| code | kind | meaning |\n| --- | --- | --- |\n{rows}\n{CHANGED_CODES}"
    )
}

const EXIT_CODES: &str = "\
Every command ends with one of these exit codes. The kind says more than the code: with `--output json` it is in the last event, \
and in the document of a failure. Codes and kinds are stable; a later version may add kinds.";

const CHANGED_CODES: &str = "\
These failures ended with exit code 2 in versions without a kind:

- A program or a file that failed on a host which answers, or an answer that kubexm cannot read: 5. Examples are `backup create` \
where a host refuses a file, `certs rotate-ca` where kubectl fails, `backup restore` where etcd does not start, and `upgrade` where \
a version cannot be read.
- Unreachable hosts that the command needs, in `backup restore`, `kubeconfig` and `registry move`: 4.
- A defect of kubexm: 10. Some of these defects ended with exit code 1 or 3.
";

/// The directory of the generated pages, wherever in the workspace this crate is.
fn folder() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here
        .ancestors()
        .find(|path| path.join("docs/book.toml").exists());
    root.unwrap().join("docs/src/reference")
}

#[test]
fn reference_pages_match_the_code() {
    let update = std::env::var_os("UPDATE_REFERENCE").is_some();
    let mut stale = Vec::new();
    for (name, text) in pages() {
        let path = folder().join(name);
        if update {
            std::fs::write(&path, &text).unwrap();
        } else if std::fs::read_to_string(&path).unwrap_or_default() != text {
            stale.push(path.display().to_string());
        }
    }
    assert!(
        stale.is_empty(),
        "these pages differ from the code; run: UPDATE_REFERENCE=1 cargo test -p kubexm reference_pages\n{}",
        stale.join("\n")
    );
}

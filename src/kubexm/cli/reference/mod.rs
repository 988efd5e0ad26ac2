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
    let rows = exit::CODES
        .iter()
        .map(|(code, meaning)| format!("| {code} | {} |\n", escaped(meaning)));
    let table: String = rows.collect();
    format!(
        "Every command ends with one of these exit codes.\n\n| code | meaning |\n| --- | --- |\n{table}"
    )
}

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

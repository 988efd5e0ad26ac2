//! Snapshots of texts that users read. Snapshot files are in `tests/golden/snapshots`; short texts are inline
//! in their test. `cargo insta review` shows and accepts changes.

mod rendered;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Returns the directory of the snapshot files of one kind.
fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/golden/snapshots")
        .join(kind)
}

/// Replaces what differs between runs in all snapshots of the scope: temporary directories, ports, durations,
/// the size of a failed transfer, reasons of the resolver, task numbers, and the version of kubexm.
pub fn filters() -> insta::internals::SettingsBindDropGuard {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"(/[\w.-]+)*/\.tmp\w{6}\b", "[folder]");
    settings.add_filter(r"127\.0\.0\.1:\d+", "127.0.0.1:[port]");
    settings.add_filter(r"\bkubexm \d+\.\d+\.\d+", "kubexm [version]");
    settings.add_filter(r"\bin \d+\.\d s\b", "in [time]");
    settings.add_filter(r"\bstopped, [\d.]+ \w+ in", "stopped, [size] in");
    settings.add_filter(
        r"(failed to lookup address information): .*",
        "$1: [reason]",
    );
    settings.add_filter(r"\btask \d+ panicked\b", "task [number] panicked");
    settings.bind_to_scope()
}

/// Compares each text with the snapshot file of its name, and the names with the files in the directory. A
/// file without a test is an error.
pub fn assert_files<'a>(kind: &str, texts: impl IntoIterator<Item = (&'a str, &'a str)>) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(folder(kind));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let mut names = BTreeSet::new();
    let mut failed = Vec::new();
    for (name, text) in texts {
        let assertion = || settings.bind(|| insta::assert_snapshot!(name, text));
        // All changes at once, not only the first.
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(assertion)).is_err() {
            failed.push(name);
        }
        assert!(names.insert(format!("{name}.snap")), "{name} is used twice");
    }
    assert!(failed.is_empty(), "these snapshots differ: {failed:#?}");
    let entries = std::fs::read_dir(folder(kind)).unwrap();
    let unused: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".snap") && !names.contains(name))
        .collect();
    assert!(
        unused.is_empty(),
        "no test refers to these files in {}, delete them: {unused:#?}",
        folder(kind).display()
    );
}

//! `--output json` of commands that print facts; `--version`, completions and manual pages.

use super::*;
use serde_json::Value;

/// Runs a command with `--output json`; returns its exit code and its document.
fn document(arguments: &[&str]) -> (Option<i32>, Value) {
    let (code, out, err) = run(&[arguments, &["--output", "json"]].concat());
    assert_eq!(err, "", "{arguments:?}");
    let document: Value = serde_json::from_str(&out).unwrap_or_else(|error| {
        panic!("{arguments:?}: {error}: {out}");
    });
    assert_eq!(document["apiVersion"], "output.kubexm.io/v1");
    (code, document)
}

#[test]
fn json_documents_have_the_facts_of_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = bundle(folder.path(), 2).display().to_string();
    let (code, inspected) = document(&["bundle", "inspect", &path]);
    assert_eq!(code, Some(0));
    assert_eq!(inspected["kind"], "BundleInspection");
    assert_eq!(inspected["name"], "example");
    assert_eq!(inspected["kubernetes"], serde_json::json!(["1.36.3"]));
    assert_eq!(inspected["files"], 2);
    assert_eq!(inspected["signedBy"], Value::Null);

    let (_, listed) = document(&["bundle", "list", "--bundle", &path]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    assert_eq!(listed["items"][1]["name"], "part0001");
    assert_eq!(listed["items"][1]["size"], 5000);

    let (_, verified) = document(&["bundle", "verify", &path]);
    assert_eq!(verified["verified"], "content");
    let (_, quick) = document(&["bundle", "verify", "--metadata-only", &path]);
    assert_eq!(quick["verified"], "index");

    let (_, same) = document(&["bundle", "diff", &path, &path]);
    assert_eq!(
        (&same["differences"], &same["newBytes"]),
        (&serde_json::json!([]), &0.into())
    );
}

#[test]
fn failures_are_json_documents_too() {
    let (code, error) = document(&["bundle", "inspect", "/nowhere.tar.zst"]);
    assert_eq!(code, Some(3));
    assert_eq!(
        (&error["kind"], &error["exitCode"]),
        (&"Error".into(), &3.into())
    );
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("/nowhere.tar.zst")
    );
}

#[test]
fn validation_lists_problems_with_their_places() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    for (kind, option) in [("cluster", "-f"), ("bundle", "--file"), ("mirrors", "-f")] {
        std::fs::write(at(kind), run(&["config", "init", kind]).1).unwrap();
        let (code, valid) = document(&["config", "validate", option, &at(kind)]);
        assert_eq!((code, &valid["valid"]), (Some(0), &true.into()), "{valid}");
    }
    let text = std::fs::read_to_string(at("cluster")).unwrap();
    std::fs::write(at("wrong"), text.replace("metadata:", "metadate:")).unwrap();
    let (code, invalid) = document(&["config", "validate", &at("wrong")]);
    assert_eq!((code, &invalid["valid"]), (Some(2), &false.into()));
    let problems = invalid["problems"].as_array().unwrap();
    assert!(
        problems.iter().any(|problem| problem["path"] == "metadate"
            && problem["line"].as_u64() > Some(0)
            && problem["hint"].is_string()),
        "{invalid}"
    );
}

#[test]
fn file_of_another_kind_is_one_error() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let small = bundle(folder.path(), 1).display().to_string();
    for kind in ["cluster", "bundle", "mirrors"] {
        std::fs::write(at(kind), run(&["config", "init", kind]).1).unwrap();
    }
    std::fs::write(at("lock"), "lockVersion: 1\nname: x\n").unwrap();
    let mut all = String::new();
    for arguments in [
        vec!["install", "--bundle", &small, "-f", &at("bundle")],
        vec!["plan", &small, "--cluster", &at("lock")],
        vec!["bundle", "lock", "-f", &at("cluster"), "-o", &at("x")],
        vec![
            "bundle",
            "lock",
            "-f",
            &at("bundle"),
            "-o",
            &at("x"),
            "--mirrors",
            &at("bundle"),
        ],
    ] {
        let (code, _, err) = run(&arguments);
        assert_eq!(code, Some(2), "{err}");
        all += &err;
    }
    let _filters = filters();
    insta::assert_snapshot!(all, @"
    error: [folder]/bundle:4:7: the file has `kind: Bundle`, expected `kind: Cluster`
    hint: `kubexm bundle build --manifest` takes this file
    error: [folder]/lock:1:14: the file is the lock of a bundle, expected `kind: Cluster`
    hint: kubexm writes such files; give a file that you wrote
    error: [folder]/cluster:3:7: the file has `kind: Cluster`, expected `kind: Bundle`
    hint: `kubexm install --cluster` takes this file
    error: [folder]/bundle:4:7: the file has `kind: Bundle`, expected `kind: Mirrors`
    hint: `kubexm bundle build --manifest` takes this file
    ");
}

#[test]
fn old_name_of_merge_works_with_one_notice() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.tar.zst").display().to_string();
    let call = |name: &str| run(&["bundle", name, "/no/a.tar.zst", "/no/b.tar.zst", "-o", &out]);
    let ((code, _, old), (_, _, new)) = (call("apply"), call("merge"));
    assert_eq!(code, Some(3));
    let notice = old.strip_suffix(new.as_str()).unwrap();
    assert_eq!(
        notice,
        "notice: `bundle apply` is now `bundle merge`; the old name remains for now\n"
    );
}

#[test]
fn program_names_its_version_and_writes_completions_and_manual_pages() {
    let (_, version, _) = run(&["--version"]);
    let expected = format!("kubexm {} (", env!("CARGO_PKG_VERSION"));
    assert!(version.starts_with(&expected), "{version}");
    assert_eq!(run(&["version"]).1, version);
    let (_, facts) = document(&["version"]);
    assert_eq!(facts["version"], env!("CARGO_PKG_VERSION"));

    for shell in ["bash", "zsh", "fish"] {
        let (code, script, _) = run(&["completions", shell]);
        assert_eq!(code, Some(0));
        assert!(script.contains("vulnerabilities"), "{shell}");
    }

    let folder = tempfile::tempdir().unwrap();
    let man = folder.path().join("man1");
    let (code, ..) = run(&["man", &man.display().to_string()]);
    assert_eq!(code, Some(0));
    let pages = names(&man);
    for page in ["kubexm.1", "kubexm-install.1", "kubexm-bundle-build.1"] {
        assert!(pages.contains(&page.to_owned()), "{pages:?}");
    }
}

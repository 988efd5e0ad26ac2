//! Cluster files that are not as they should be.

use super::*;

/// Every finding has the file's name, a line, a column and a hint.
fn findings(text: &[u8], arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.yaml");
    std::fs::write(&path, text).unwrap();
    let name = path.display().to_string();
    let (code, _, err) = run(&[arguments, &["-f", &name]].concat());
    assert_eq!(code, Some(2), "{err}");
    assert!(err.len() < 20_000, "{} bytes of message", err.len());
    let err = err.strip_prefix("error: ").unwrap();
    let lines: Vec<&str> = err.lines().collect();
    for pair in lines.chunks(2) {
        let rest = pair[0]
            .strip_prefix(&name)
            .unwrap_or_else(|| panic!("{err}"));
        let mut place = rest.split(':').skip(1).map(str::parse::<u32>);
        let is_whole_file = rest.starts_with(": is ");
        assert!(is_whole_file || place.next().unwrap().is_ok(), "{err}");
        assert!(is_whole_file || place.next().unwrap().is_ok(), "{err}");
        assert!(pair[1].starts_with("  hint: "), "{err}");
    }
    err.to_owned()
}

#[test]
fn strange_yaml_ends_in_messages_with_place_and_hint() {
    let good = run(&["config", "init"]).1;
    let laughs: String = (1..30)
        .map(|at| format!("a{at}: &a{at} [*a{0},*a{0},*a{0}]\n", at - 1))
        .collect();
    for (text, wanted) in [
        (b"".to_vec(), "is empty"),
        (b"# nothing\n---\n".to_vec(), "missing"),
        (
            good.replace("  hosts:", "\thosts:").into(),
            "never with tabs",
        ),
        (format!("a0: &a0 [lol]\n{laughs}").into(), "anchors"),
        (b"a: &a [*a]\n".to_vec(), "anchors"),
        (
            good.replace("    port: 22\n", "    port: 22\n    port: 23\n")
                .into(),
            "only once",
        ),
        (format!("{good}---\n{good}").into(), "one document"),
        ("a: b\n".repeat(2_500_000).into(), "1 MiB"),
        (
            format!("x: {}\n", "y".repeat(1_000_000)).into(),
            "unknown field",
        ),
        (
            format!("{}: 1\n", "y".repeat(100_000)).into(),
            "no valid YAML",
        ),
        (b"\"\\e[2J\\e]0;evil\\a\": 1\n".to_vec(), "unknown field"),
        (
            [good.as_bytes(), b"\n# \xff\xfe\n"].concat(),
            "no text in UTF-8",
        ),
        ("[".repeat(100_000).into(), "deep nesting"),
        (b"- a\n- b\n".to_vec(), "wants fields, not a list"),
        (b"42\n".to_vec(), "wants fields, not a number"),
        (b"a: 99999999999999999999999\n".to_vec(), "hint: "),
        (b"{".to_vec(), "no valid YAML"),
    ] {
        let words = findings(&text, &["config", "validate"]);
        assert!(words.contains(wanted), "wanted '{wanted}' in: {words}");
        assert!(!words.contains('\u{1b}'), "{words:?}");
    }
}

#[test]
fn all_findings_of_a_file_come_in_one_run_with_the_version_that_the_bundle_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let small = bundle(folder.path(), 1).display().to_string();
    let text = run(&["config", "init"])
        .1
        .replace("v1.36.3", "v1.35.1")
        .replace("podCIDR: 10.244.0.0/16", "podCIDR: 10.96.0.0/16")
        .replace("node[2:3]", "node[2:4]")
        .replace("    type: containerd", "    type: dokcer")
        .replace("    replicas: 2", "    replicas: many")
        .replace("    disableSwap: true", "    disableSwop: true");
    let wanted = [
        "the bundle lacks Kubernetes v1.35.1",
        "the bundle has v1.36.3",
        "overlap",
        "there is no host 'node4'",
        "'dokcer' is unknown",
        "wants a whole number from 1 to 100",
        "did you mean 'disableSwap'?",
    ];
    let out = folder.path().join("out").display().to_string();
    for command in [
        vec!["plan", "--bundle", &small],
        vec!["install", "--bundle", &small],
        vec!["install", "--dry-run", "--bundle", &small],
        vec!["render", "--out", &out, "--bundle", &small],
    ] {
        let words = findings(text.as_bytes(), &command);
        for part in wanted {
            assert!(
                words.contains(part),
                "{command:?}: wanted '{part}' in: {words}"
            );
        }
    }
    assert!(!Path::new(&out).exists() && !Path::new(".kubexm/demo").exists());
}

#[test]
fn whoever_names_a_file_that_is_not_there_is_told_how_to_start_one() {
    let there = "manifests/kubernetes-1.36.yaml";
    for (arguments, start) in [
        (&["config", "validate", "-f", "no.yaml"][..], "init >"),
        (
            &["bundle", "lock", "-f", "no.yaml", "-o", "/nowhere/x"],
            "init bundle >",
        ),
        (
            &[
                "bundle",
                "lock",
                "-f",
                there,
                "-o",
                "/nowhere/x",
                "--mirrors",
                "no.yaml",
            ],
            "init mirrors >",
        ),
    ] {
        let (code, _, err) = run(arguments);
        assert_eq!(code, Some(2), "{err}");
        assert!(err.contains(&format!("kubexm config {start}")), "{err}");
    }
}

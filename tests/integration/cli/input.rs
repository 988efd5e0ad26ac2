//! Invalid cluster files.

use super::*;

/// Checks that every finding has the name of the file, a line, a column and a hint.
fn findings(text: &[u8], arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.yaml");
    std::fs::write(&path, text).unwrap();
    let name = path.display().to_string();
    let (code, _, err) = run(&[arguments, &["-f", &name]].concat());
    assert_eq!(code, Some(2), "{err}");
    assert!(err.len() < 20_000, "{} bytes of message", err.len());
    // The hint of one problem alone is not indented.
    let err = err.strip_prefix("error: ").unwrap();
    let err = err.replace("\nhint: ", "\n  hint: ");
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
    err
}

#[test]
fn invalid_yaml_is_reported_with_place_and_hint() {
    let good = run(&["config", "init"]).1;
    let laughs: String = (1..30)
        .map(|at| format!("a{at}: &a{at} [*a{0},*a{0},*a{0}]\n", at - 1))
        .collect();
    let texts: [(&str, Vec<u8>); 17] = [
        ("an empty file", b"".to_vec()),
        ("no document", b"# nothing\n---\n".to_vec()),
        ("a tab", good.replace("  hosts:", "\thosts:").into()),
        ("many anchors", format!("a0: &a0 [lol]\n{laughs}").into()),
        ("an anchor in itself", b"a: &a [*a]\n".to_vec()),
        (
            "a field twice",
            good.replace("    port: 22\n", "    port: 22\n    port: 23\n")
                .into(),
        ),
        ("two documents", format!("{good}---\n{good}").into()),
        ("12 MB", "a: b\n".repeat(2_500_000).into()),
        (
            "a long value",
            format!("x: {}\n", "y".repeat(1_000_000)).into(),
        ),
        (
            "a long field",
            format!("{}: 1\n", "y".repeat(100_000)).into(),
        ),
        (
            "control characters",
            b"\"\\e[2J\\e]0;evil\\a\": 1\n".to_vec(),
        ),
        ("not UTF-8", [good.as_bytes(), b"\n# \xff\xfe\n"].concat()),
        ("deep", "[".repeat(100_000).into()),
        ("a list", b"- a\n- b\n".to_vec()),
        ("a number", b"42\n".to_vec()),
        ("a large number", b"a: 99999999999999999999999\n".to_vec()),
        ("half a map", b"{".to_vec()),
    ];
    let mut all = String::new();
    for (what, text) in texts {
        let printed = findings(&text, &["config", "validate"]);
        assert!(!printed.contains('\u{1b}'), "{printed:?}");
        all += &format!("=== {what}\n{printed}");
    }
    let _filters = filters();
    let mut settings = insta::Settings::clone_current();
    // Independent of the length of the example.
    settings.add_filter(r"c\.yaml:[4-9]\d:", "c.yaml:[behind]:");
    let _lines = settings.bind_to_scope();
    insta::assert_snapshot!(all, @r#"
    === an empty file
    [folder]/c.yaml: is empty
      hint: `kubexm config init` prints a file to start from
    === no document
    [folder]/c.yaml:2:4: apiVersion: is missing
      hint: `kubexm config schema cluster` describes every field
    [folder]/c.yaml:2:4: kind: is missing
      hint: `kubexm config schema cluster` describes every field
    [folder]/c.yaml:2:4: metadata: is missing
      hint: `kubexm config schema cluster` describes every field
    [folder]/c.yaml:2:4: spec: is missing
      hint: `kubexm config schema cluster` describes every field
    === a tab
    [folder]/c.yaml:12:1: a tab indents this line
      hint: indent with spaces: YAML does not allow tabs
    === many anchors
    [folder]/c.yaml:1:9: anchors and aliases are not accepted
      hint: write the value again instead of the alias
    === an anchor in itself
    [folder]/c.yaml:1:7: anchors and aliases are not accepted
      hint: write the value again instead of the alias
    === a field twice
    [folder]/c.yaml:12:5: the field 'port' is there twice
      hint: remove one of the two fields
    === two documents
    [folder]/c.yaml:[behind]:1: the file contains more than one document
      hint: remove everything from the second '---' on
    === 12 MB
    [folder]/c.yaml: is larger than 1 MiB, which is the most that kubexm reads
      hint: check that this is the right file
    === a long value
    [folder]/c.yaml:1:1: apiVersion: is missing
      hint: `kubexm config schema cluster` describes every field
    [folder]/c.yaml:1:1: kind: is missing
      hint: `kubexm config schema cluster` describes every field
    [folder]/c.yaml:1:1: metadata: is missing
      hint: `kubexm config schema cluster` describes every field
    [folder]/c.yaml:1:1: spec: is missing
      hint: `kubexm config schema cluster` describes every field
    [folder]/c.yaml:1:1: x: unknown field
      hint: known fields: apiVersion, kind, metadata, spec
    === a long field
    [folder]/c.yaml:1:100001: is not valid YAML: mapping values are not allowed in this context
      hint: check indentation, quotes and brackets here and above
    === control characters
    [folder]/c.yaml:1:1: \u{1b}[2J\u{1b}]0;evil\u{7}: unknown field
      hint: known fields: apiVersion, kind, metadata, spec
    [folder]/c.yaml:1:1: apiVersion: is missing
      hint: `kubexm config schema cluster` describes every field
    [folder]/c.yaml:1:1: kind: is missing
      hint: `kubexm config schema cluster` describes every field
    [folder]/c.yaml:1:1: metadata: is missing
      hint: `kubexm config schema cluster` describes every field
    [folder]/c.yaml:1:1: spec: is missing
      hint: `kubexm config schema cluster` describes every field
    === not UTF-8
    [folder]/c.yaml:[behind]:3: the file is not valid UTF-8 from here on
      hint: check that this is the right file, and save it as UTF-8
    === deep
    [folder]/c.yaml:1:256: fields and lists are nested too deeply
      hint: close the brackets; kubexm accepts 64 levels
    === a list
    [folder]/c.yaml:1:1: expected fields, found a list
      hint: `kubexm config schema cluster` describes every field
    [folder]/c.yaml:1:1: apiVersion: is missing
      hint: `kubexm config schema cluster` describes every field
    [folder]/c.yaml:1:1: kind: is missing
      hint: `kubexm config schema cluster` describes every field
    [folder]/c.yaml:1:1: metadata: is missing
      hint: `kubexm config schema cluster` describes every field
    [folder]/c.yaml:1:1: spec: is missing
      hint: `kubexm config schema cluster` describes every field
    === a number
    [folder]/c.yaml:1:1: expected fields, found a number
      hint: `kubexm config schema cluster` describes every field
    [folder]/c.yaml:1:1: apiVersion: is missing
      hint: `kubexm config schema cluster` describes every field
    [folder]/c.yaml:1:1: kind: is missing
      hint: `kubexm config schema cluster` describes every field
    [folder]/c.yaml:1:1: metadata: is missing
      hint: `kubexm config schema cluster` describes every field
    [folder]/c.yaml:1:1: spec: is missing
      hint: `kubexm config schema cluster` describes every field
    === a large number
    [folder]/c.yaml:1:1: a: unknown field
      hint: known fields: apiVersion, kind, metadata, spec
    [folder]/c.yaml:1:1: apiVersion: is missing
      hint: `kubexm config schema cluster` describes every field
    [folder]/c.yaml:1:1: kind: is missing
      hint: `kubexm config schema cluster` describes every field
    [folder]/c.yaml:1:1: metadata: is missing
      hint: `kubexm config schema cluster` describes every field
    [folder]/c.yaml:1:1: spec: is missing
      hint: `kubexm config schema cluster` describes every field
    === half a map
    [folder]/c.yaml:1:1: is not valid YAML: unclosed bracket '{'
      hint: check indentation, quotes and brackets here and above
    "#);
}

#[test]
fn all_findings_of_a_file_are_reported_with_the_missing_version() {
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
    let _filters = filters();
    let out = folder.path().join("out").display().to_string();
    for command in [
        vec!["plan", "--bundle", &small],
        vec!["install", "--unsigned", "--bundle", &small],
        vec!["install", "--dry-run", "--unsigned", "--bundle", &small],
        vec!["render", "--out", &out, "--bundle", &small],
    ] {
        let printed = findings(text.as_bytes(), &command);
        insta::allow_duplicates!(insta::assert_snapshot!(printed, @"
        [folder]/c.yaml:18:14: spec.roleGroups.worker[0]: spec.hosts does not contain 'node4'
          hint: `kubexm config schema cluster` describes every field
        [folder]/c.yaml:21:14: spec.kubernetes.version: the bundle does not contain Kubernetes v1.35.1
          hint: the bundle contains v1.36.3: use that version, or build a bundle with v1.35.1
        [folder]/c.yaml:32:11: spec.containerRuntime.type: unknown value 'dokcer'
          hint: kubexm [version] accepts: containerd, cri-o, docker, isulad
        [folder]/c.yaml:36:5: spec.network: podCIDR 10.96.0.0/16 and serviceCIDR 10.96.0.0/12 overlap
          hint: use two networks that do not overlap
        [folder]/c.yaml:40:15: spec.dns.replicas: expected a whole number from 1 to 100
          hint: `kubexm config schema cluster` describes every field
        [folder]/c.yaml:46:5: spec.system.disableSwop: unknown field
          hint: did you mean 'disableSwap'?
        "));
    }
    assert!(!Path::new(&out).exists() && !Path::new(".kubexm/demo").exists());
}

#[test]
fn missing_file_is_reported_with_a_hint_to_create_one() {
    let there = "manifests/kubernetes-1.36.yaml";
    let mut all = String::new();
    for arguments in [
        &["config", "validate", "-f", "no.yaml"][..],
        &["bundle", "lock", "-f", "no.yaml", "-o", "/nowhere/x"],
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
    ] {
        let (code, _, err) = run(arguments);
        assert_eq!(code, Some(2), "{err}");
        all += &format!("=== {arguments:?}\n{err}");
    }
    insta::assert_snapshot!(all, @r#"
    === ["config", "validate", "-f", "no.yaml"]
    error: no.yaml: cannot be read: No such file or directory (os error 2)
    hint: `kubexm config init > cluster.yaml` writes a file to start from
    === ["bundle", "lock", "-f", "no.yaml", "-o", "/nowhere/x"]
    error: no.yaml: cannot be read: No such file or directory (os error 2)
    hint: `kubexm config init bundle > bundle.yaml` writes a file to start from
    === ["bundle", "lock", "-f", "manifests/kubernetes-1.36.yaml", "-o", "/nowhere/x", "--mirrors", "no.yaml"]
    error: no.yaml: cannot be read: No such file or directory (os error 2)
    hint: `kubexm config init mirrors > mirrors.yaml` writes a file to start from
    "#);
}

/// Records of the state directory, of which a look at the cluster needs none.
#[test]
fn damaged_records_do_not_hide_the_state_of_the_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = folder.path().join("cluster.yaml");
    // Nothing listens at this port.
    let hosts = "  hosts: [{name: node1, address: 127.0.0.1, port: 1, user: root, password: a}]\n";
    let text = format!(
        "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: demo}}\nspec:\n{hosts}  roleGroups: {{control-plane: \
         [node1], worker: [node1]}}\n  kubernetes: {{version: v1.36.3}}\n"
    );
    std::fs::write(&cluster, text).unwrap();
    let records = ["newest-bundle.json", "cluster.json", "rotation.json"];
    for record in records {
        std::fs::write(folder.path().join(record), "{").unwrap();
    }
    let (cluster, state) = (
        cluster.display().to_string(),
        folder.path().display().to_string(),
    );
    let (code, out, err) = run(&[
        "status", "-f", &cluster, "--state", &state, "--output", "json",
    ]);
    assert_eq!(code, Some(9), "{out}{err}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let problems = report["problems"].as_array().unwrap();
    for record in records {
        let is_named = |problem: &&serde_json::Value| {
            problem["what"].as_str().unwrap().contains(record)
                && problem["hint"]
                    .as_str()
                    .unwrap()
                    .starts_with("restore the file")
        };
        assert!(problems.iter().any(|one| is_named(&one)), "{record}: {out}");
    }
}

#[test]
fn manifests_with_one_name_are_refused_by_a_build() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for place in ["a", "b"] {
        std::fs::create_dir(path(place)).unwrap();
        let object = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {place}}}}}");
        std::fs::write(path(place).join("site.yaml"), object).unwrap();
    }
    let manifest = "apiVersion: kubexm.io/v1alpha1\nkind: Bundle\nmetadata: {name: b}\nspec:\n  architectures: [amd64]\n  \
                    manifests: [a/site.yaml, b/site.yaml]\n";
    std::fs::write(path("b.yaml"), manifest).unwrap();
    let place = |name: &str| path(name).display().to_string();
    let (file, out, cache) = (place("b.yaml"), place("out.tar.zst"), place("cache"));
    let (code, _, err) = run(&[
        "bundle", "build", "-f", &file, "-o", &out, "--cache", &cache,
    ]);
    assert_eq!(code, Some(3), "{err}");
    assert!(
        err.contains("site.yaml: another one has the same name"),
        "{err}"
    );
    assert!(!Path::new(&out).exists());
}

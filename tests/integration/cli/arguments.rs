//! Exit codes, help, and a closed standard output.

use super::*;

#[test]
fn exit_codes_state_the_kind_of_failure() {
    let folder = tempfile::tempdir().unwrap();
    let small = bundle(folder.path(), 1).display().to_string();
    let cluster = folder.path().join("cluster.yaml").display().to_string();
    std::fs::write(&cluster, run(&["config", "init"]).1).unwrap();
    let manifest = "manifests/kubernetes-1.36.yaml";
    for (code, arguments) in [
        (0, vec!["--version"]),
        (0, vec!["config", "validate", "-f", &cluster]),
        (0, vec!["bundle", "verify", &small]),
        (2, vec![]),
        (2, vec!["instal"]),
        (2, vec!["bundle"]),
        (2, vec!["bundle", "verify"]),
        (2, vec!["install", "--bundle", &small]),
        (2, vec!["install", &small, "-f", &cluster]),
        (2, vec!["bundle", "list", &small, "--output", "xml"]),
        (
            2,
            vec![
                "bundle", "build", "-f", manifest, "-o", "x", "--level", "20",
            ],
        ),
        (2, vec!["config", "schema", "cloud"]),
        (2, vec!["config", "validate", "-f", "/nowhere.yaml"]),
        (2, vec!["config", "validate", "-f", "/"]),
        (3, vec!["bundle", "verify", "/nowhere.tar.zst"]),
        (
            3,
            vec![
                "bundle",
                "build",
                "-f",
                manifest,
                "-o",
                "/proc/kubexm/b.tar.zst",
            ],
        ),
        (
            3,
            vec![
                "bundle",
                "build",
                "-f",
                manifest,
                "-o",
                "/dev/null/b.tar.zst",
            ],
        ),
        (3, vec!["plan", "--bundle", &small, "-f", &cluster]),
    ] {
        let (got, _, err) = run(&arguments);
        assert_eq!(got, Some(code), "{arguments:?}: {err}");
        assert!(code == 0 || !err.is_empty(), "{arguments:?}: {err}");
    }
    insta::assert_snapshot!(run(&["instal"]).2, @"
    error: unrecognized subcommand 'instal'

      tip: a similar subcommand exists: 'install'

    Usage: kubexm [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
    let (_, _, err) = run(&[
        "bundle",
        "build",
        "-f",
        manifest,
        "-o",
        "/proc/kubexm/b.tar.zst",
    ]);
    insta::assert_snapshot!(err, @"
    error: /proc/kubexm: cannot write a bundle to this folder: No such file or directory (os error 2)
    hint: name another file with --out
    ");
}

#[test]
fn help_of_every_command_fits_a_terminal() {
    let mut commands = vec![Vec::new()];
    let mut seen = 0;
    while let Some(command) = commands.pop() {
        let mut arguments: Vec<&str> = command.iter().map(String::as_str).collect();
        arguments.push("--help");
        let output = kubexm()
            .args(&arguments)
            .env("COLUMNS", "200")
            .output()
            .unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{arguments:?}: {line}");
        }
        seen += 1;
        // `kubexm` and `kubexm bundle` list their commands in groups.
        let groups = [
            "Commands:",
            "Bundle:",
            "Cluster:",
            "Operate:",
            "Maintain:",
            "Tools:",
            "Create:",
            "Inspect:",
            "Move:",
            "Sign:",
        ];
        let mut is_list = false;
        for line in help.lines() {
            is_list = groups.contains(&line) || is_list && line.starts_with("  ");
            let name = line.split_whitespace().next().unwrap_or_default();
            if is_list && line.starts_with("  ") && !line.starts_with("   ") && name != "help" {
                commands.push([command.clone(), vec![name.to_owned()]].concat());
            }
        }
    }
    assert!(seen >= 40, "only {seen} commands were found");
}

#[test]
fn closed_standard_output_is_not_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    // More than a pipe buffers.
    let path = bundle(folder.path(), 5000);
    for arguments in [vec!["bundle", "list"], vec!["bundle", "inspect"]] {
        let mut command = kubexm();
        command.args(arguments).arg(&path);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0u8; 4];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(err.is_empty(), "{err}");
        assert_eq!(output.status.code(), Some(0));
    }
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = kubexm()
        .args(["config", "init"])
        .stdout(full)
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    insta::assert_snapshot!(err, @"error: standard output cannot be written: No space left on device (os error 28)");
}

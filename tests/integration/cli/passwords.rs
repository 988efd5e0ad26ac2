//! Passwords from files, file descriptors and the environment.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// Runs with a password in standard input, which is a pipe.
fn run_with_input(arguments: &[&str], input: &str) -> (Option<i32>, String) {
    use std::io::Write;
    let mut command = kubexm();
    command.args(arguments).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The program may end before it reads its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code(), text)
}

#[test]
fn password_of_a_key_comes_from_a_file_or_a_descriptor() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (bundle, key, password) = (bundle(folder.path(), 1), at("site.key"), at("password"));
    let bundle = bundle.display().to_string();
    std::fs::write(&password, "first pass\n").unwrap();
    let mode = |bits| std::fs::set_permissions(&password, PermissionsExt::from_mode(bits)).unwrap();
    mode(0o644);
    let keygen = [
        "bundle",
        "keygen",
        &at("site"),
        "--password-file",
        &password,
    ];
    let (code, _, err) = run(&keygen);
    assert_eq!(code, Some(2), "{err}");
    assert!(
        err.contains("other users can read the file (mode 0644)"),
        "{err}"
    );
    assert!(err.contains("hint: run `chmod 600 "), "{err}");
    mode(0o600);
    let (code, _, err) = run(&keygen);
    assert_eq!(code, Some(0), "{err}");
    let sign = ["bundle", "sign", &bundle, "--key", &key, "--password-file"];
    let (code, _, err) = run(&[&sign[..], &[&password]].concat());
    assert_eq!(code, Some(0), "{err}");
    let descriptor = [&sign[..], &["/dev/fd/0"]].concat();
    assert_eq!(run_with_input(&descriptor, "first pass\n").0, Some(0));
    let (code, text) = run_with_input(&descriptor, "second pass\n");
    assert_ne!(code, Some(0));
    assert!(
        !text.contains("pass\n") && !text.contains("second"),
        "{text}"
    );
}

#[test]
fn password_of_hosts_is_asked_for_on_a_terminal_only() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.yaml").display().to_string();
    std::fs::write(&file, run(&["config", "init"]).1).unwrap();
    let reset = ["reset", "-f", &file, "--yes"];
    let missing = [&reset[..], &["--password-file", "/nonexistent/password"]].concat();
    let (code, _, err) = run(&missing);
    assert_eq!(code, Some(2), "{err}");
    assert!(
        err.contains("cannot read the password in /nonexistent/password"),
        "{err}"
    );
    let both = [
        &reset[..],
        &["--password-file", "/dev/fd/0", "--ask-password"],
    ]
    .concat();
    let (code, _, err) = run(&both);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("cannot be used with"), "{err}");
}

#[test]
fn passphrase_of_cas_is_asked_for_on_a_terminal_only() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.yaml").display().to_string();
    std::fs::write(&file, run(&["config", "init"]).1).unwrap();
    let passphrase = folder.path().join("passphrase");
    std::fs::write(&passphrase, "CANARY phrase\n").unwrap();
    std::fs::set_permissions(&passphrase, PermissionsExt::from_mode(0o644)).unwrap();
    let passphrase = passphrase.display().to_string();
    let install = ["install", "b.tar.zst", "-f", &file, "--unsigned"];
    for (options, expected) in [
        (
            &["--ca-passphrase-file", &passphrase][..],
            "other users can read the file",
        ),
        (
            &["--ca-passphrase-file", "/nonexistent/p"],
            "cannot read the passphrase in /nonexistent/p",
        ),
        (
            &["--ca-passphrase-file", &passphrase, "--ask-ca-passphrase"],
            "cannot be used with",
        ),
        (
            &["--ca-identity", &passphrase, "--ask-ca-passphrase"],
            "cannot be used with",
        ),
    ] {
        let (code, _, err) = run(&[&install[..], options].concat());
        assert_eq!(code, Some(2), "{err}");
        assert!(err.contains(expected), "{expected}: {err}");
        assert!(!err.contains("CANARY"), "{err}");
    }
}

//! Passwords of hosts and registries.

use std::os::unix::fs::PermissionsExt;

use crate::cluster::PasswordSource;
use crate::{load_cluster, parse_cluster};

/// A cluster file with fields of a host and of `spec`.
fn text(host: &str, spec: &str) -> String {
    format!(
        "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: a}}\nspec:\n  hosts:\n    \
         - {{name: node1, address: 10.0.0.1{host}}}\n  roleGroups: {{control-plane: [node1]}}\n  \
         kubernetes: {{version: v1.36.3}}\n{spec}"
    )
}

#[test]
fn each_host_has_one_source() {
    let source = |host: &str, spec: &str| {
        let cluster = parse_cluster("c.yaml", &text(host, spec)).unwrap();
        cluster.hosts[0].password.clone()
    };
    assert_eq!(source("", ""), None);
    let variable = Some(PasswordSource::Variable("SITE".to_owned()));
    assert_eq!(source(", passwordEnv: SITE", ""), variable);
    let file = Some(PasswordSource::File("/dev/fd/3".into()));
    let defaults = "  defaults: {passwordFile: /dev/fd/3}\n";
    assert_eq!(source("", defaults), file);
    // The host decides.
    assert_eq!(source(", passwordEnv: SITE", defaults), variable);
    for host in [
        ", passwordEnv: SITE, passwordFile: x",
        ", password: s3cret, passwordEnv: A",
    ] {
        let problems = parse_cluster("c.yaml", &text(host, ""))
            .unwrap_err()
            .to_string();
        assert!(problems.contains("exclude each other"), "{problems}");
        assert!(!problems.contains("s3cret"), "{problems}");
    }
    for name in ["'$SITE'", "'A B'", "'1A'", "''"] {
        let host = format!(", passwordEnv: {name}");
        let problems = parse_cluster("c.yaml", &text(&host, ""))
            .unwrap_err()
            .to_string();
        assert!(
            problems.contains("name of an environment variable"),
            "{problems}"
        );
    }
}

#[test]
fn files_with_passwords_that_others_can_read_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (file, password) = (folder.path().join("c.yaml"), folder.path().join("password"));
    let mode =
        |path, bits| std::fs::set_permissions(path, PermissionsExt::from_mode(bits)).unwrap();
    std::fs::write(&password, "s3cret\n").unwrap();
    let registry = format!(
        "  registry: {{type: external, address: harbor.example, username: a, passwordFile: {}}}\n",
        password.display()
    );
    std::fs::write(&file, text(", password: s3cret", &registry)).unwrap();
    let notices = || {
        let notices = load_cluster(&file).unwrap().notices;
        let texts: Vec<String> = notices.iter().map(ToString::to_string).collect();
        texts
            .join("\n")
            .replace(&folder.path().display().to_string(), "F")
    };
    mode(&file, 0o644);
    mode(&password, 0o640);
    insta::assert_snapshot!(notices(), @"
    F/c.yaml:9:82: spec.registry.passwordFile: other users can read F/password
      hint: run `chmod 600 F/password`
    F/c.yaml: contains passwords, and other users can read it
      hint: run `chmod 600 F/c.yaml`, or use passwordFile
    ");
    mode(&file, 0o600);
    mode(&password, 0o400);
    assert_eq!(notices(), "");
    let external = load_cluster(&file).unwrap().registry.external.unwrap();
    assert_eq!(external.login.unwrap().password().unwrap().0, "s3cret");
}

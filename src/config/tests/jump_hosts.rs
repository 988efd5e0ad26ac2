//! `jumpHost` of hosts and of their defaults.

use std::os::unix::fs::PermissionsExt;

use crate::cluster::{JumpHost, PasswordSource, Transport};
use crate::{load_cluster, parse_cluster};

/// A cluster file with fields of the defaults and of a host.
fn text(defaults: &str, host: &str) -> String {
    format!(
        "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: a}}\nspec:\n  defaults: {{{defaults}}}\n  \
         hosts:\n    - {{name: node1, address: 10.0.0.1{host}}}\n  roleGroups: {{control-plane: [node1]}}\n  \
         kubernetes: {{version: v1.36.3}}\n"
    )
}

fn way(defaults: &str, host: &str) -> Option<Vec<JumpHost>> {
    let cluster = parse_cluster("c.yaml", &text(defaults, host)).unwrap();
    cluster.hosts[0].jump_hosts.clone()
}

fn jump(address: &str, port: u16) -> JumpHost {
    JumpHost {
        address: address.to_owned(),
        port,
        user: "ops".to_owned(),
        password: None,
        private_key_path: None,
    }
}

#[test]
fn the_nearest_jump_host_is_first_and_hosts_override_the_default() {
    let one = "jumpHost: {address: gate.example, user: ops}";
    assert_eq!(way("", ""), None);
    assert_eq!(way(one, ""), Some(vec![jump("gate.example", 22)]));
    assert_eq!(way(one, ", jumpHost: none"), Some(vec![]));
    let other = ", jumpHost: {address: 192.0.2.7, port: 2222, user: ops, passwordEnv: GATE, privateKeyPath: /k}";
    let expected = JumpHost {
        password: Some(PasswordSource::Variable("GATE".to_owned())),
        private_key_path: Some("/k".into()),
        ..jump("192.0.2.7", 2222)
    };
    assert_eq!(way(one, other), Some(vec![expected]));
    let two = ", jumpHost: {address: b, user: ops, jumpHost: {address: a, user: ops}}";
    assert_eq!(way("", two), Some(vec![jump("a", 22), jump("b", 22)]));
}

#[test]
fn the_ssh_of_this_machine_has_its_own_jump_hosts() {
    let transport = |defaults: &str, host: &str| {
        let cluster = parse_cluster("c.yaml", &text(defaults, host));
        cluster.map(|cluster| cluster.hosts[0].transport)
    };
    assert_eq!(transport("", "").unwrap(), Transport::BuiltIn);
    let openssh = "transport: openssh";
    assert_eq!(transport(openssh, "").unwrap(), Transport::OpenSsh);
    let builtin = transport(openssh, ", transport: builtin").unwrap();
    assert_eq!(builtin, Transport::BuiltIn);
    let jump = "jumpHost: {address: gate, user: ops}";
    let both = format!("{openssh}, {jump}");
    assert_eq!(
        transport(&both, ", jumpHost: none").unwrap(),
        Transport::OpenSsh
    );
    let refused = transport(&both, "").unwrap_err().to_string();
    assert!(
        refused.contains("write ProxyJump in the SSH configuration"),
        "{refused}"
    );
    let unknown = transport("transport: ssh", "").unwrap_err().to_string();
    assert!(unknown.contains("expected builtin or openssh"), "{unknown}");
}

#[test]
fn wrong_jump_hosts_are_reported() {
    let problems = |defaults: &str, host: &str| {
        parse_cluster("c.yaml", &text(defaults, host))
            .unwrap_err()
            .to_string()
    };
    let three = ", jumpHost: {address: c, user: o, jumpHost: {address: b, user: o, jumpHost: {address: a, user: o}}}";
    let all = [
        problems("", ", jumpHost: gate.example"),
        problems("", ", jumpHost: {port: 0, password: a, passwordEnv: B}"),
        problems("jumpHost: {address: 'a b', user: root}", ", jumpHost: none"),
        problems("", three),
    ];
    insta::assert_snapshot!(all.join("\n"), @"
    c.yaml:7:50: spec.hosts[0].jumpHost: expected the fields of an SSH server, found text
      hint: write {address: gate.example, user: ops}, or none
    c.yaml:7:50: spec.hosts[0].jumpHost.address: is missing
      hint: `kubexm config schema cluster` describes every field
    c.yaml:7:50: spec.hosts[0].jumpHost.user: is missing
      hint: `kubexm config schema cluster` describes every field
    c.yaml:7:57: spec.hosts[0].jumpHost.port: expected a whole number from 1 to 65535
      hint: `kubexm config schema cluster` describes every field
    c.yaml:7:86: spec.hosts[0].jumpHost.password: password, passwordFile and passwordEnv exclude each other
      hint: keep one of them
    c.yaml:5:34: spec.defaults.jumpHost.address: address 'a b': expected an IP address or a name, as in 192.0.2.11 or node1.example
      hint: `kubexm config schema cluster` describes every field
    c.yaml:7:104: spec.hosts[0].jumpHost.jumpHost.jumpHost: unknown field
      hint: known fields: address, password, passwordEnv, passwordFile, port, privateKeyPath, user
    ");
}

#[test]
fn a_password_of_a_jump_host_makes_the_file_a_secret() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.yaml");
    std::fs::write(
        &file,
        text("jumpHost: {address: a, user: b, password: s3cret}", ""),
    )
    .unwrap();
    let notices = |mode: u32| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        load_cluster(&file).unwrap().notices.len()
    };
    assert_eq!((notices(0o644), notices(0o600)), (1, 0));
}

//! `spec.system.files`.

use super::read;

#[test]
fn files_of_hosts_are_checked() {
    let read = |files: &str| read("", &format!("  system: {{files: [{files}]}}\n"));
    let cluster = read(
        "{path: /etc/site/a, content: \"x\", mode: \"0640\", owner: \"root:etcd\", roles: [etcd, worker]}",
    )
    .unwrap();
    let file = &cluster.system.files[0];
    assert_eq!((file.mode, file.is_secret()), (0o640, true));
    let hosts = cluster.hosts.iter();
    let hosts: Vec<bool> = hosts
        .map(|host| file.is_for(&cluster.roles, &host.name))
        .collect();
    assert_eq!(hosts, [true, true, true]);
    assert!(!format!("{cluster:?}").contains("\"x\""));
    for (files, expected) in [
        ("{content: x}", "is missing"),
        ("{path: /etc/site/a}", "neither source nor content"),
        (
            "{path: /etc/site/a, source: /none, content: x}",
            "both source and content",
        ),
        ("{path: /etc/site/a, source: /none}", "does not exist"),
        ("{path: /etc/site/a, content: x, mode: 640}", "in quotes"),
        (
            "{path: /etc/site/a, content: x, mode: \"1777\"}",
            "octal digits",
        ),
        (
            "{path: /etc/site/a, content: x, owner: \"a b\"}",
            "user or user:group",
        ),
        (
            "{path: /etc/site/a, content: x, owner: \"root:\"}",
            "user or user:group",
        ),
        (
            "{path: /etc/site/a, content: x, roles: [master]}",
            "unknown value",
        ),
        ("{path: /etc/kubexm/a, content: x}", "other programs write"),
        (
            "{path: /etc/kubernetes/pki/a, content: x}",
            "other programs write",
        ),
        (
            "{path: /a, content: x}, {path: /a, content: y}",
            "another item",
        ),
    ] {
        let problems = read(files).expect_err(files).to_string();
        assert!(problems.contains(expected), "{files}: {problems}");
    }
}

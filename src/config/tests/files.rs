//! `spec.system.files` and `spec.system.hooks`.

use super::read;
use crate::cluster::{HookPhase, HookRun, HookTime};

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
            "{path: /a, content: x}, {path: /a, content: z}",
            "another item",
        ),
    ] {
        let problems = read(files).expect_err(files).to_string();
        assert!(problems.contains(expected), "{files}: {problems}");
    }
}

#[test]
fn hooks_of_hosts_are_checked() {
    let read = |hooks: &str| read("", &format!("  system: {{hooks: [{hooks}]}}\n"));
    let cluster = read(
        "{name: disks, phase: system, when: after, content: \"x\", roles: [etcd], timeoutSeconds: 7, run: always}, \
         {name: down, phase: reset, when: before, content: z}",
    )
    .unwrap();
    let [disks, down] = &cluster.system.hooks[..] else {
        panic!("{cluster:?}")
    };
    assert_eq!(
        (disks.phase, disks.time),
        (HookPhase::System, HookTime::After)
    );
    assert_eq!((disks.run, disks.timeout.as_secs()), (HookRun::Always, 7));
    assert_eq!((down.run, down.timeout.as_secs()), (HookRun::Changed, 300));
    assert!(!format!("{cluster:?}").contains("\"x\""));
    let good = "name: a, phase: system, when: after";
    for (hooks, expected) in [
        (
            "{phase: system, when: after, content: x}",
            "name: is missing",
        ),
        ("{name: a, when: after, content: x}", "phase: is missing"),
        ("{name: a, phase: system, content: x}", "when: is missing"),
        (
            "{name: ../a, phase: system, when: after, content: x}",
            "name of a hook",
        ),
        (
            "{name: a, phase: etcd, when: after, content: x}",
            "unknown value",
        ),
        (
            "{name: a, phase: system, when: during, content: x}",
            "unknown value",
        ),
        (&format!("{{{good}}}"), "neither source nor content"),
        (&format!("{{{good}, source: /none}}"), "does not exist"),
        (
            &format!("{{{good}, content: x, timeoutSeconds: 0}}"),
            "from 1 to 3600",
        ),
        (
            &format!("{{{good}, content: x, run: once}}"),
            "unknown value",
        ),
        (
            "{name: a, phase: reset, when: after, content: x, run: always}",
            "not accepted with phase: reset",
        ),
        (
            &format!("{{{good}, content: x}}, {{{good}, content: z}}"),
            "another hook",
        ),
    ] {
        let problems = read(hooks).expect_err(hooks).to_string();
        assert!(problems.contains(expected), "{hooks}: {problems}");
    }
}

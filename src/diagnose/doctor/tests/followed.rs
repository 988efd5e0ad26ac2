//! The commands of fixes run on the lab.

use crate::doctor::checks;

/// Checks whose commands no suite follows, and why.
const OTHERS: &[(&str, &str)] = &[
    ("applications", "kubexm app: tests/e2e-apps"),
    ("cgroup", "each host of the lab has cgroup v1"),
    ("cgroup-driver", "an install, that of registry-mirrors"),
    ("clock", "hosts of the lab may not set their clock"),
    ("commands", "the interrupted command: the suite of each one"),
    ("dns-servers", "an install with another cluster file"),
    ("endpoint", "shows what the API server answers"),
    ("etcd-data", "kubexm node replace: tests/e2e-nodes"),
    ("etcd-disk", "no command: the disk is slow"),
    ("etcd-quorum", "the command of etcd-member"),
    ("file-systems", "of preflight: tests/e2e-field"),
    ("host", "shows processes"),
    ("host-names", "of preflight: tests/e2e-field"),
    ("images", "an install with another bundle"),
    (
        "kernel-limits",
        "the kernel of the lab permits no other limit",
    ),
    ("kernel-settings", "of preflight: tests/e2e-field"),
    ("namespaces", "shows the namespace"),
    ("node", "shows the node"),
    ("pods", "shows pods"),
    ("proxies", "of preflight: tests/e2e-field"),
    ("receipts", "no command of doctor: tests/e2e-status"),
    ("registry-ca", "an install, that of registry-mirrors"),
    ("releases", "shows Jobs and the history of a release"),
    ("routes", "of preflight: tests/e2e-field"),
    ("runtime-class", "an install, that of registry-mirrors"),
    ("sandbox-image", "an install, that of registry-mirrors"),
    ("service-address", "shows the service"),
    ("service-network", "a defective offload needs the hardware"),
    ("swap", "hosts of the lab may not change swap"),
    ("timers", "kubexm certs and backup: tests/e2e-timers"),
    ("unreachable", "no command: the host does not answer"),
    ("version", "no command of doctor: tests/e2e-upgrade"),
];

/// What doctor prints as the fix must be one: `undone` and `follow_fix` run the commands of a report.
#[test]
fn commands_of_each_check_run_on_the_lab_or_have_a_reason() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests");
    let mut suite = std::fs::read_to_string(format!("{root}/e2e-doctor")).unwrap();
    for entry in std::fs::read_dir(format!("{root}/doctor")).unwrap() {
        suite += &std::fs::read_to_string(entry.unwrap().path()).unwrap();
    }
    let mut words = suite.split_whitespace().peekable();
    let mut followed = Vec::new();
    while let Some(word) = words.next() {
        if matches!(word, "undone" | "follow_fix") {
            followed.extend(words.peek().copied());
        }
    }
    for check in checks() {
        let has_reason = OTHERS.iter().any(|(id, _)| *id == check.id);
        assert_ne!(has_reason, followed.contains(&check.id), "{}", check.id);
    }
    for (id, _) in OTHERS {
        assert!(checks().any(|check| check.id == *id), "{id} is not a check");
    }
}

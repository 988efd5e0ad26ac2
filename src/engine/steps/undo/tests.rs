use super::*;
use kubexm_types::HostPath;

/// Records that 94e4003 wrote, one for each of its scripts.
const EARLIER: &str = include_str!("../../../../tests/golden/receipts/texts.jsonl");

fn path(text: &str) -> HostPath {
    HostPath::parse(text).unwrap()
}

fn refused(undo: &serde_json::Value) -> String {
    let undo: Undo = serde_json::from_value(undo.clone()).unwrap();
    undo.validate().unwrap_err().to_string()
}

#[test]
fn every_record_of_an_earlier_version_is_reverted_by_a_script_of_this_version() {
    let mut count = 0;
    for line in EARLIER.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        let mut undo: Undo = serde_json::from_value(record["undo"].clone()).unwrap();
        assert!(!undo.validate().unwrap().is_empty(), "{}", record["step"]);
        let Undo::Script { script, .. } = &mut undo else {
            panic!("{line}")
        };
        script.push_str("rm -rf /lib/modules\n");
        assert!(undo.validate().is_err(), "{}", record["step"]);
        count += 1;
    }
    assert_eq!(count, 21);
}

#[test]
fn scripts_of_receipts_are_never_run() {
    let free = serde_json::json!({"kind": "script", "title": "Stop pods", "script": "touch /root/pwned", "arguments": []});
    let text = refused(&free);
    assert!(text.ends_with("is not an undo script of kubexm"), "{text}");
    let named = serde_json::json!({"kind": "run", "script": "steps/run-to-completion.sh", "arguments": ["x"]});
    assert_eq!(
        refused(&named),
        "\"steps/run-to-completion.sh\" is not an undo script of kubexm"
    );
    let argument = serde_json::json!({"kind": "run", "script": "systemd/unit-stop.sh", "arguments": ["sshd.service"]});
    assert_eq!(
        refused(&argument),
        "the arguments [\"sshd.service\"] are not valid for systemd/unit-stop.sh"
    );
}

#[test]
fn records_of_system_paths_are_refused() {
    for kind in ["removeTree", "removeDirectory"] {
        for path in [
            "/etc",
            "/usr/lib",
            "/lib/modules/6.1",
            "/home/anna",
            "/var/lib",
            "/root",
        ] {
            let text = refused(&serde_json::json!({"kind": kind, "path": path}));
            assert!(
                text.starts_with(&format!("{path} is a path of the operating system")),
                "{text}"
            );
        }
    }
    let file = serde_json::json!({"kind": "removeFile", "path": "/etc/shadow", "folders": []});
    assert!(refused(&file).starts_with("/etc/shadow is a path"));
    let folder =
        serde_json::json!({"kind": "removeFile", "path": "/etc/a/b", "folders": ["/srv/c"]});
    assert_eq!(refused(&folder), "/srv/c is not a directory of /etc/a/b");
    let backup =
        serde_json::json!({"kind": "restoreFile", "path": "/etc/a", "backup": "/tmp/evil"});
    assert_eq!(refused(&backup), "/tmp/evil is not a copy that kubexm made");
    let wrong = serde_json::json!({"kind": "removeTree", "path": "/srv/../etc"});
    assert!(serde_json::from_value::<Undo>(wrong).is_err());
}

/// `/lib/modules` was recorded where it did not exist at the install. A kernel that was installed later stays.
#[test]
fn record_of_kernel_modules_removes_no_module() {
    let undo = Undo::RemoveTree {
        path: path("/lib/modules"),
    };
    let reverts = undo.validate().unwrap();
    assert_eq!(reverts[0].arguments(), ["/lib/modules", "any"]);
}

#[test]
fn a_record_that_no_reset_accepts_is_not_written() {
    let undo = Undo::RemoveDirectory { path: path("/etc") };
    assert!(
        undo.to_value()
            .unwrap_err()
            .to_string()
            .contains("/etc is a path of the operating system")
    );
}

#[test]
fn lines_of_scripts_become_sentences() {
    let kept = |line| revert::kept(line);
    assert_eq!(
        kept("kept unknown /etc/kubernetes/a b").unwrap(),
        "/etc/kubernetes/a b stays: no program of the cluster creates it"
    );
    assert_eq!(
        kept("kept used br_netfilter").unwrap(),
        "the kernel module br_netfilter stays loaded: something uses it"
    );
    assert_eq!(kept("Removing it"), None);
}

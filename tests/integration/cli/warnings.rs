//! Warnings about cluster files: former names and experimental settings.

use super::{bundle, run};
use kubexm_config::schema::TEMPLATE;

const CASES: [(&str, &str, &str, &str); 4] = [
    (
        "kubernetes-type",
        "    # type: systemd ",
        "    type: kubexm #",
        "systemd",
    ),
    (
        "etcd-type",
        "  etcd:\n    type: kubeadm",
        "  etcd:\n    type: kubexm",
        "systemd",
    ),
    (
        "load-balancer-haproxy",
        "    type: none",
        "    type: kubexm-ah",
        "keepalived-haproxy",
    ),
    (
        "load-balancer-nginx",
        "    type: none",
        "    type: kubexm-an",
        "keepalived-nginx",
    ),
];

#[test]
fn former_names_are_accepted_with_one_notice() {
    let dir = tempfile::tempdir().unwrap();
    for (case, from, to, current) in CASES {
        assert!(TEMPLATE.contains(from), "{case}");
        let mut text = TEMPLATE.replace(from, to);
        if case == "kubernetes-type" {
            // kubeadm's etcd does not fit.
            text = text.replace("  etcd:\n    type: kubeadm", "  etcd:\n    type: systemd");
        }
        if case.starts_with("load-balancer") {
            let endpoint = "  controlPlaneEndpoint: {address: 192.0.2.10, port: 8443}\n  etcd:";
            text = text.replace("  etcd:", endpoint);
        }
        let path = dir.path().join(format!("{case}.yaml"));
        std::fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap();

        let (code, out, err) = run(&["config", "validate", "-f", path]);
        assert_eq!(code, Some(0), "{case}: {err}");
        assert!(out.contains("is valid"), "{case}: {out}");
        let warnings: Vec<&str> = err.lines().filter(|l| l.contains("warning")).collect();
        assert_eq!(warnings.len(), 1, "{case}: {err}");
        let line = to.lines().last().unwrap().trim_end_matches(" #");
        let at = std::fs::read_to_string(path).unwrap();
        let at = at
            .lines()
            .position(|other| other.starts_with(line))
            .unwrap()
            + 1;
        assert!(
            warnings[0].contains(&format!("{path}:{at}:")) && warnings[0].contains(current),
            "{case}: {err}"
        );

        let (code, out, err) = run(&["config", "validate", "-f", path, "--output", "json"]);
        assert_eq!(code, Some(0), "{case}: {err}");
        let document: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(document["notices"].as_array().unwrap().len(), 1, "{out}");
        assert_eq!(document["notices"][0]["line"], at, "{out}");
    }
}

/// Monitoring programs decide on the kind of a warning, not on its text.
#[test]
fn warnings_in_json_have_kinds() {
    let dir = tempfile::tempdir().unwrap();
    let bundle = bundle(dir.path(), 2).display().to_string();
    let path = dir.path().join("cluster.yaml").display().to_string();
    let state = dir.path().join("state").display().to_string();
    // No host answers.
    let text = TEMPLATE
        .replace("address: 192.0.2.1", "port: 1, address: 127.0.0.1")
        .replace("plugin: flannel", "plugin: cilium")
        .replace("    type: none", "    type: kubexm-ah");
    let endpoint = "  controlPlaneEndpoint: {address: 192.0.2.10, port: 8443}\n  etcd:";
    std::fs::write(&path, text.replace("  etcd:", endpoint)).unwrap();
    let arguments = [
        "install", "--bundle", &bundle, "-f", &path, "--state", &state,
    ];
    let options = ["--unsigned", "--dry-run", "--output", "json"];
    let (_, out, err) = run(&[&arguments[..], &options].concat());
    let events = out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let warnings = events.filter(|event| event["event"] == "warning");
    let kinds: Vec<String> = warnings.map(|event| event["kind"].to_string()).collect();
    assert_eq!(kinds, ["\"settings\"", "\"experimental\""], "{out}\n{err}");
}

#[test]
fn experimental_settings_give_one_warning() {
    let dir = tempfile::tempdir().unwrap();
    let bundle = bundle(dir.path(), 2).display().to_string();
    let path = dir.path().join("cluster.yaml").display().to_string();
    let text = TEMPLATE
        .replace("plugin: flannel", "plugin: cilium")
        .replace("type: containerd", "type: isulad");
    std::fs::write(&path, text).unwrap();
    for (arguments, code) in [
        (vec!["config", "validate", "-f", &path], 0),
        // The bundle contains no programs.
        (vec!["plan", "--bundle", &bundle, "-f", &path], 3),
    ] {
        let (ended, _, err) = run(&arguments);
        assert_eq!(ended, Some(code), "{err}");
        let warnings: Vec<&str> = err.lines().filter(|l| l.contains("warning")).collect();
        let expected = format!(
            "warning: {path}: experimental settings: spec.containerRuntime.type: isulad; \
             spec.network.plugin: cilium"
        );
        assert_eq!(warnings, [expected], "{err}");
    }
}

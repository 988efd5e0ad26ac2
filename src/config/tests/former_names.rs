//! Former names of values: accepted, with the meaning of the new name and one notice.

use super::read;
use crate::{Cluster, parse_manifest};

/// A cluster with further fields of `kubernetes`, and further sections of the spec.
fn cluster(kubernetes: &str, sections: &str) -> Cluster {
    read(kubernetes, sections).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Returns the notices, and asserts that the clusters are the same otherwise.
fn notices(mut former: Cluster, current: Cluster) -> String {
    assert!(current.notices.is_empty(), "{:?}", current.notices);
    let notices = std::mem::take(&mut former.notices);
    assert_eq!(format!("{former:?}"), format!("{current:?}"));
    let lines: Vec<String> = notices.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

#[test]
fn former_load_balancer_types_equal_the_new_ones() {
    let with = |kind: &str| {
        let added = format!(
            "  highAvailability: {{type: {kind}, virtualRouterID: 7}}\n  controlPlaneEndpoint: 10.0.0.9:8443\n"
        );
        cluster("", &added)
    };
    let found = [
        ("kubexm-ah", "keepalived-haproxy"),
        ("kubexm-an", "keepalived-nginx"),
    ]
    .map(|(former, current)| notices(with(former), with(current)));
    insta::assert_snapshot!(found.join("\n"), @"
    cluster.yaml:13:28: spec.highAvailability.type: 'kubexm-ah' is the former name of 'keepalived-haproxy'
      hint: write keepalived-haproxy
    cluster.yaml:13:28: spec.highAvailability.type: 'kubexm-an' is the former name of 'keepalived-nginx'
      hint: write keepalived-nginx
    ");
}

#[test]
fn former_systemd_types_equal_the_new_ones() {
    let with = |kind: &str| cluster("", &format!("  etcd: {{type: {kind}, dataDir: /srv}}\n"));
    let etcd = notices(with("kubexm"), with("systemd"));
    let with = |kind: &str| cluster(&format!("type: {kind}"), "  etcd: {type: systemd}\n");
    let kubernetes = notices(with("kubexm"), with("systemd"));
    insta::assert_snapshot!(format!("{etcd}\n{kubernetes}"), @"
    cluster.yaml:13:16: spec.etcd.type: 'kubexm' is the former name of 'systemd'
      hint: write systemd
    cluster.yaml:14:40: spec.kubernetes.type: 'kubexm' is the former name of 'systemd'
      hint: write systemd
    ");
}

#[test]
fn former_types_of_manifests_equal_the_new_ones() {
    let with = |kind: &str| {
        let text = crate::schema::BUNDLE_TEMPLATE.replace(
            "versions: [\"1.36.3\"]",
            &format!("versions: [\"1.36.3\"], types: [kubeadm, {kind}]"),
        );
        parse_manifest("bundle.yaml", &text).unwrap()
    };
    let (mut former, current) = (with("kubexm"), with("systemd"));
    assert!(current.notices.is_empty(), "{:?}", current.notices);
    let notices = std::mem::take(&mut former.notices);
    assert_eq!(format!("{former:?}"), format!("{current:?}"));
    let lines: Vec<String> = notices.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    bundle.yaml:10:55: spec.kubernetes.types[1]: 'kubexm' is the former name of 'systemd'
      hint: write systemd
    ");
}

#[test]
fn crio_is_a_former_name() {
    let cluster = read("", "  containerRuntime: {type: crio}\n").unwrap();
    assert_eq!(cluster.runtime.kind.name(), "cri-o");
    let notice = cluster.notices[0].to_string();
    assert!(notice.contains("hint: write cri-o"), "{notice}");
}

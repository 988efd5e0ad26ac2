//! Checks of machines by their facts.

use super::*;
use kubexm_config::example::cluster;

/// Returns the findings of a control plane with this number of CPUs and this memory in KiB.
fn findings(cpus: Option<u64>, memory: Option<u64>) -> Vec<(bool, String)> {
    let cluster = cluster("", "");
    let facts = Facts {
        cpus,
        memory,
        ..Facts::default()
    };
    let facts = BTreeMap::from([("node1".parse().unwrap(), facts)]);
    let found = check(&cluster, &facts, &Offer::default()).into_iter();
    let about = |what: &str| what.contains("CPU") || what.contains("memory");
    found
        .filter(|finding| about(&finding.what))
        .map(|finding| (finding.fatal, finding.what))
        .collect()
}

#[test]
fn a_missing_number_is_not_zero() {
    let unknown = [
        (
            false,
            "does not report its memory; a control plane needs 1700 MiB",
        ),
        (
            false,
            "does not report its number of CPUs; a control plane needs two",
        ),
    ];
    let unknown = unknown.map(|(fatal, what)| (fatal, what.to_owned()));
    assert_eq!(findings(None, None), unknown);
    assert_eq!(findings(Some(2), Some(1700 * 1024)), []);
    let small = [
        (
            true,
            "has less than the 1700 MiB of memory that a control plane needs",
        ),
        (true, "has one CPU, but a control plane needs two"),
    ];
    let small = small.map(|(fatal, what)| (fatal, what.to_owned()));
    assert_eq!(findings(Some(1), Some(1700 * 1024 - 1)), small);
}

#[test]
fn certificates_of_another_cluster_are_refused() {
    let cluster = cluster("", "");
    let refused = |host: &str, receipt, files: &[&str]| {
        let files = files.iter();
        let files = files.map(|file| (format!("/etc/kubernetes/pki/{file}"), String::new()));
        let facts = Facts {
            receipt,
            certificates: files.collect(),
            ..Facts::default()
        };
        let facts = BTreeMap::from([(host.parse().unwrap(), facts)]);
        let found = check(&cluster, &facts, &Offer::default()).into_iter();
        let mut about = found.filter(|finding| finding.what.contains("/etc/kubernetes/pki/"));
        about.next().map(|finding| {
            assert!(finding.fatal);
            finding.what
        })
    };
    let worker = refused("node2", false, &["ca.crt"]).unwrap();
    assert_eq!(
        worker,
        "has /etc/kubernetes/pki/ca.crt of a Kubernetes that kubexm did not install"
    );
    // `kubeadm init` would take over the CA, and the controller manager would sign with the other file.
    let control_plane = refused("node1", false, &["ca.crt", "signing-ca.crt"]).unwrap();
    assert!(control_plane.starts_with("has /etc/kubernetes/pki/ca.crt and 1 other file of"));
    // A node of this cluster has them.
    assert_eq!(refused("node2", true, &["ca.crt"]), None);
    assert_eq!(refused("node1", false, &[]), None);
}

/// Returns what is found on a new control plane `node1` with these facts.
fn found(facts: Facts) -> Vec<String> {
    let cluster = cluster("", "");
    let facts = BTreeMap::from([("node1".parse().unwrap(), facts)]);
    let found = check(&cluster, &facts, &Offer::default()).into_iter();
    let about = [
        "/etc/hosts has",
        "an etcd that",
        "runtime that does not run",
    ];
    found
        .filter(|finding| about.iter().any(|what| finding.what.contains(what)))
        .map(|finding| format!("{} {}", finding.fatal, finding.what))
        .collect()
}

#[test]
fn other_address_of_a_name_in_hosts_file_is_refused() {
    let entry = |address: &str, name: &str| Facts {
        hosts_entries: vec![(address.parse().unwrap(), name.to_owned())],
        ..Facts::default()
    };
    assert_eq!(
        found(entry("10.0.0.99", "registry.kubexm.internal")),
        [
            "true /etc/hosts has the line '10.0.0.99 registry.kubexm.internal', but the cluster file gives \
             registry.kubexm.internal the address 192.0.2.11"
        ]
    );
    assert_eq!(found(entry("10.0.0.99", "node2")).len(), 1);
    // The right address, the own name on loopback, and names of others.
    for (address, name) in [
        ("192.0.2.11", "registry.kubexm.internal"),
        ("127.0.1.1", "node1"),
        ("10.0.0.99", "harbor.example"),
    ] {
        assert_eq!(found(entry(address, name)), [""; 0], "{name}");
    }
}

#[test]
fn remains_of_a_stopped_runtime_and_of_an_old_etcd_are_found() {
    let with = |path: &str, receipt| Facts {
        existing: [path.to_owned()].into(),
        receipt,
        ..Facts::default()
    };
    assert_eq!(
        found(with("/usr/bin/dockerd", false)),
        ["false has programs of a container runtime that does not run: /usr/bin/dockerd"]
    );
    assert_eq!(
        found(with("/var/lib/etcd/member", false)),
        ["true /var/lib/etcd/member contains data of an etcd that kubexm did not install"]
    );
    for path in ["/usr/bin/dockerd", "/var/lib/etcd/member"] {
        assert_eq!(found(with(path, true)), [""; 0], "{path}");
    }
}

/// The other one may be a worker that is left out, and the clone would join in its place.
#[test]
fn clone_is_the_host_that_is_not_a_node_yet() {
    let cluster = cluster("", "");
    let facts = |is_node: bool| Facts {
        machine_id: Some("1".to_owned()),
        joined: is_node,
        ..Facts::default()
    };
    let clone = |first: bool, second: bool| -> Vec<String> {
        let hosts = [("node1", facts(first)), ("node2", facts(second))];
        let hosts = hosts.map(|(name, facts)| (name.parse().unwrap(), facts));
        let found = check(&cluster, &hosts.into(), &Offer::default()).into_iter();
        let found = found.filter(|finding| finding.what.contains("machine-id"));
        found.map(|finding| finding.host.to_string()).collect()
    };
    assert_eq!(clone(true, false), ["node2"]);
    assert_eq!(clone(false, true), ["node1"]);
    assert_eq!(clone(false, false), ["node2"]);
}

#[test]
fn swap_is_accepted_if_the_kubelet_starts_with_it() {
    let refused = |kubernetes: &str, sections: &str| {
        let cluster = cluster(kubernetes, sections);
        let facts = Facts {
            swap: vec!["/dev/sda2".to_owned()],
            ..Facts::default()
        };
        let facts = BTreeMap::from([("node1".parse().unwrap(), facts)]);
        let found = check(&cluster, &facts, &Offer::default());
        found
            .iter()
            .any(|finding| finding.kind == kubexm_types::FindingKind::Swap)
    };
    let kept = "system: {disableSwap: false}";
    assert!(refused("", kept));
    assert!(!refused("", ""));
    assert!(!refused(
        "kubelet: {extraConfig: {failSwapOn: false}}",
        kept
    ));
}

#[test]
fn data_directories_that_cannot_be_written_are_refused() {
    let refused = |host: &str, above: &[&str]| {
        let facts = Facts {
            read_only: above.iter().map(|path| (*path).to_owned()).collect(),
            read_only_disks: ["/var/lib/containerd", "/var/lib/etcd"]
                .map(str::to_owned)
                .into(),
            ..Facts::default()
        };
        let facts = BTreeMap::from([(host.parse().unwrap(), facts)]);
        let found = check(&cluster("", ""), &facts, &Offer::default()).into_iter();
        let found = found.filter(|finding| finding.what.contains("read-only"));
        found
            .filter_map(|finding| Some(finding.what.split([' ', ':']).nth(2)?.to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        refused("node1", &[]),
        ["/var/lib/containerd", "/var/lib/etcd"]
    );
    assert_eq!(refused("node2", &[]), ["/var/lib/containerd"]);
    assert_eq!(refused("node1", &["/var/lib"]), ["/var/lib"]);
}

//! What a user sees for good and bad cluster files.

mod load_balancers;
mod patches;

use super::*;

const GOOD: &str = "\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {name: demo}
spec:
  defaults: {user: ops, password: sesame}
  hosts:
    - {name: node1, address: 10.0.0.11}
    - {name: node2, address: 10.0.0.12, port: 2222, user: root}
    - {name: node3, address: 10.0.0.13}
  roleGroups:
    master: [node1]
    worker: [\"node[2:3]\"]
  kubernetes: {version: v1.36.3}
";

#[test]
fn the_name_service_has_the_address_that_kubeadm_gives_it() {
    let networks = [
        ("10.244.0.0/16", "10.96.0.0/28", "10.96.0.10"),
        ("fd00:10:244::/56", "fd00:10:96::/112", "fd00:10:96::a"),
    ];
    for (pods, services, wanted) in networks {
        let network = format!(
            "network: {{plugin: none, podCIDR: \"{pods}\", serviceCIDR: \"{services}\"}}\n  kubernetes:"
        );
        let text = GOOD.replace("kubernetes:", &network);
        let cluster = parse_cluster("cluster.yaml", &text).unwrap();
        assert_eq!(cluster.network.dns_address.to_string(), wanted);
    }
}

#[test]
fn a_short_file_gets_working_defaults() {
    let cluster = parse_cluster("cluster.yaml", GOOD).unwrap();
    assert_eq!(cluster.control_plane_endpoint.to_string(), "10.0.0.11:6443");
    assert_eq!(cluster.network.dns_address.to_string(), "10.96.0.10");
    assert_eq!(cluster.roles.worker.len(), 2);
    assert_eq!(cluster.roles.registry, cluster.roles.control_plane);
    assert_eq!(
        (cluster.hosts[1].user.as_str(), cluster.hosts[1].port),
        ("root", 2222)
    );
    assert_eq!(
        (cluster.hosts[0].user.as_str(), cluster.hosts[0].port),
        ("ops", 22)
    );
    assert!(
        !format!("{cluster:?}").contains("sesame"),
        "a password must never be printed"
    );
}

#[test]
fn a_default_that_every_host_overrides_is_no_unknown_field() {
    let text = GOOD
        .replace("10.0.0.11}", "10.0.0.11, user: admin, password: one}")
        .replace("user: root}", "user: root, password: two}")
        .replace("10.0.0.13}", "10.0.0.13, user: admin, password: three}");
    let cluster = parse_cluster("cluster.yaml", &text).unwrap();
    assert_eq!(cluster.hosts[2].user, "admin");
}

/// The messages for a text made by replacing something in the good file.
fn problems(from: &str, to: &str) -> Vec<String> {
    assert!(GOOD.contains(from), "{from}");
    let error = parse_cluster("cluster.yaml", &GOOD.replace(from, to)).unwrap_err();
    error
        .list
        .iter()
        .map(|p| {
            format!(
                "{}:{} {} {} [{}]",
                p.line,
                p.column,
                p.path,
                p.message,
                p.hint.clone().unwrap_or_default()
            )
        })
        .collect()
}

/// Holds what must be said of each text made by replacing something in the good file.
fn are_named<const COUNT: usize>(cases: [(&str, &str, Vec<&str>); COUNT]) {
    for (from, to, wanted) in cases {
        let all = problems(from, to).join("\n");
        for part in wanted {
            assert!(all.contains(part), "{to}: wanted '{part}' in:\n{all}");
        }
    }
}

#[test]
fn every_fault_is_named_with_its_place_and_a_hint() {
    are_named([
        (
            "kind: Cluster",
            "kind: Bundle",
            vec!["2:7 kind", "kubexm 0.1.0 takes: Cluster"],
        ),
        (
            "port: 2222",
            "prot: 2222",
            vec!["8:", "spec.hosts[1].prot", "did you mean 'port'?"],
        ),
        (
            "port: 2222",
            "port: high",
            vec!["spec.hosts[1].port wants a whole number"],
        ),
        ("node[2:3]", "node[2:4]", vec!["there is no host 'node4'"]),
        (
            "v1.36.3",
            "1.36",
            vec!["wants text, not a number", "quotes"],
        ),
        (
            "v1.36.3}",
            "v1.36.3, type: kubexm}",
            vec!["spec.etcd.type", "there is no kubeadm to make that etcd"],
        ),
        ("name: node3", "name: node2", vec!["'node2' is used twice"]),
        (
            "kubernetes:",
            "network: {podCIDR: 10.96.0.0/16}\n  kubernetes:",
            vec!["overlap"],
        ),
        (
            "kubernetes:",
            "network: {podCIDR: 10.0.0.0/16}\n  kubernetes:",
            vec!["contains 10.0.0.11 of host node1"],
        ),
        (
            "master: [node1]",
            "master: [node1]\n    loadbalancer: [node3]",
            vec!["loadbalancer names hosts, and highAvailability.type has no use"],
        ),
        (
            "master: [node1]",
            "master: []",
            vec!["control-plane names no host"],
        ),
        (
            "master: [node1]",
            "master: [node1, node3]",
            vec!["several control planes need one address"],
        ),
        (
            "kubernetes:",
            "etcd: {type: external}\n  kubernetes:",
            vec!["spec.etcd.external is missing"],
        ),
        (
            "kubernetes:",
            "etcd: {type: external, extraArgs: {a: b}, external: {endpoints: [\"http://a:2379\"], caFile: /no, certFile: /no, keyFile: /no}}\n  kubernetes:",
            vec![
                "spec.etcd.extraArgs is not taken",
                "wants https://host:port",
                "there is no file /no",
            ],
        ),
        (
            "kubernetes:",
            "etcd: {external: {endpoints: [\"https://a:2379\"]}}\n  kubernetes:",
            vec!["spec.etcd.external is taken only with type: external"],
        ),
        (
            "kubernetes:",
            "etcd: {type: kubexm, dataDir: /a b, extraArgs: {initial-cluster: x}}\n  kubernetes:",
            vec![
                "'initial-cluster' is set by kubexm",
                "spec.etcd.dataDir has characters",
            ],
        ),
        (
            "kubernetes:",
            "etcd: {dataDir: /a}\n  kubernetes:",
            vec!["spec.etcd.dataDir is taken only with type: kubexm"],
        ),
        (
            "kubernetes:",
            "registry: {type: external, port: 1, username: a}\n  kubernetes:",
            vec![
                "spec.registry.port is not taken",
                "spec.registry.address is missing",
            ],
        ),
        (
            "kubernetes:",
            "registry: {address: a:1}\n  kubernetes:",
            vec!["spec.registry.address is not taken"],
        ),
        (
            "  roleGroups:\n",
            "  registry: {type: external, address: a.example}\n  roleGroups:\n    registry: [node2]\n",
            vec!["spec.roleGroups.registry names hosts"],
        ),
        ("spec:\n", "spec:\n\t- a\n", vec!["5:1", "never with tabs"]),
        (
            "metadata: {name: demo}",
            "metadata: &a {name: demo}",
            vec!["is no valid YAML", "anchors"],
        ),
        (
            "metadata: {name: demo}",
            "metadata: {name: demo, name: demo}",
            vec!["is no valid YAML"],
        ),
    ]);
}

#[test]
fn all_faults_come_in_one_run() {
    let text = GOOD
        .replace("port: 2222", "port: 0")
        .replace("v1.36.3", "newest")
        .replace("worker:", "wroker:");
    let error = parse_cluster("cluster.yaml", &text).unwrap_err();
    assert!(error.list.len() >= 3, "{error}");
    assert!(error.list.is_sorted(), "{error}");
}

#[test]
fn huge_empty_and_deep_files_end_in_a_message() {
    let huge = "a: b\n".repeat(2_100_000);
    assert!(
        parse_cluster("c", &huge)
            .unwrap_err()
            .to_string()
            .contains("1 MiB")
    );
    assert!(
        parse_cluster("c", " \n")
            .unwrap_err()
            .to_string()
            .contains("is empty")
    );
    let deep = "[".repeat(100_000);
    assert!(parse_cluster("c", &deep).is_err());
    let bomb = "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n";
    assert!(parse_cluster("c", bomb).is_err());
}

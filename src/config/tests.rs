//! What a user sees for good and bad cluster files.

mod applications;
mod dns;
mod files;
mod former_names;
mod ip_families;
mod jump_hosts;
mod kubeadm;
mod load_balancers;
mod other_tools;
mod passwords;
mod patches;
mod programs;
mod runtimes;
mod security;
mod values;
mod yaml;

use super::*;

/// A short cluster file without problems.
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

/// The settings of Kubernetes in [`GOOD`].
const KUBERNETES: &str = "kubernetes: {version: v1.36.3}";

/// Reads the good file with one change.
fn read_changed(from: &str, to: &str) -> Result<Cluster, Problems> {
    assert!(GOOD.contains(from), "{from}");
    parse_cluster("cluster.yaml", &GOOD.replacen(from, to, 1))
}

/// Reads the good file with further fields of `kubernetes`, and further sections of the spec.
fn read(kubernetes: &str, sections: &str) -> Result<Cluster, Problems> {
    let version = if kubernetes.contains("version:") {
        ""
    } else {
        "version: v1.36.3, "
    };
    let settings = format!("{sections}  kubernetes: {{{version}{kubernetes}}}");
    read_changed(&format!("  {KUBERNETES}"), &settings)
}

/// Returns the problem of a file that is refused at `path` and for no other reason. `case` is the change of the file.
fn only_problem(read: Result<Cluster, Problems>, path: &str, case: &str) -> Problem {
    let problems = read.expect_err(case);
    let [problem] = problems.list.as_slice() else {
        panic!("{case}: {problems}");
    };
    assert_eq!(problem.path, path, "{case}: {problems}");
    problem.clone()
}

/// Asserts that a file is refused at `path`, with `hint`, and for no other reason.
fn assert_refused(kubernetes: &str, sections: &str, path: &str, hint: &str) {
    let case = format!("{sections}{kubernetes}");
    let problem = only_problem(read(kubernetes, sections), path, &case);
    let given = problem.hint.unwrap_or_default();
    assert!(given.contains(hint), "{given}, expected {hint}");
}

/// Gives the hosts of [`GOOD`] addresses of IPv6.
fn of_ipv6(text: &str) -> String {
    text.replace(" 10.0.0.1", " fdab::1")
}

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
        let mut text = GOOD.replace("kubernetes:", &network);
        if pods.contains(':') {
            text = of_ipv6(&text);
        }
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
        (cluster.hosts[1].user.as_deref(), cluster.hosts[1].port),
        (Some("root"), Some(2222))
    );
    assert_eq!(
        (cluster.hosts[0].user.as_deref(), cluster.hosts[0].port),
        (Some("ops"), None)
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
    assert_eq!(cluster.hosts[2].user.as_deref(), Some("admin"));
}

/// The messages for each text made by replacing something in the good file.
fn faults<const COUNT: usize>(cases: [(&str, &str); COUNT]) -> String {
    let mut all = String::new();
    for (from, to) in cases {
        assert!(GOOD.contains(from), "{from}");
        let error = parse_cluster("cluster.yaml", &GOOD.replace(from, to)).unwrap_err();
        all += &format!("=== {}\n{error}\n", to.trim());
    }
    all.replace(env!("CARGO_PKG_VERSION"), "[version]")
}

#[test]
fn every_fault_is_named_with_its_place_and_a_hint() {
    let told = faults([
        ("kind: Cluster", "kind: Bundle"),
        ("port: 2222", "prot: 2222"),
        ("port: 2222", "port: high"),
        ("node[2:3]", "node[2:4]"),
        ("v1.36.3", "1.36"),
        ("v1.36.3}", "v1.36.3, type: systemd}"),
        ("name: node3", "name: node2"),
        (
            "kubernetes:",
            "network: {podCIDR: 10.96.0.0/16}\n  kubernetes:",
        ),
        (
            "kubernetes:",
            "network: {podCIDR: 10.0.0.0/16}\n  kubernetes:",
        ),
        (
            "master: [node1]",
            "master: [node1]\n    loadbalancer: [node3]",
        ),
        ("master: [node1]", "master: []"),
        ("master: [node1]", "master: [node1, node3]"),
        ("kubernetes:", "etcd: {type: external}\n  kubernetes:"),
        (
            "kubernetes:",
            "etcd: {type: external, extraArgs: {a: b}, external: {endpoints: [\"http://a:2379\"], caFile: /no, certFile: /no, keyFile: /no}}\n  kubernetes:",
        ),
        (
            "kubernetes:",
            "etcd: {type: external, external: {}}\n  kubernetes:",
        ),
        (
            "kubernetes:",
            "etcd: {type: external, external: {endpoints: [\"https://a:2379\"], caFile: /no, certFile: /no}}\n  kubernetes:",
        ),
        (
            "kubernetes:",
            "etcd: {external: {endpoints: [\"https://a:2379\"]}}\n  kubernetes:",
        ),
        (
            "kubernetes:",
            "etcd: {type: systemd, dataDir: /a b, extraArgs: {initial-cluster: x}}\n  kubernetes:",
        ),
        (
            "kubernetes:",
            "etcd: {type: external, dataDir: /a}\n  kubernetes:",
        ),
        (
            "kubernetes:",
            "registry: {type: external, port: 1, username: a}\n  kubernetes:",
        ),
        ("kubernetes:", "registry: {address: a:1}\n  kubernetes:"),
        (
            "  roleGroups:\n",
            "  registry: {type: external, address: a.example}\n  roleGroups:\n    registry: [node2]\n",
        ),
        ("spec:\n", "spec:\n\t- a\n"),
        ("metadata: {name: demo}", "metadata: &a {name: demo}"),
        (
            "metadata: {name: demo}",
            "metadata: {name: demo, name: demo}",
        ),
    ]);
    insta::assert_snapshot!(told, @r#"
    === kind: Bundle
    cluster.yaml:2:7: the file has `kind: Bundle`, expected `kind: Cluster`
      hint: `kubexm bundle build --manifest` takes this file
    === prot: 2222
    cluster.yaml:8:41: spec.hosts[1].prot: unknown field
      hint: did you mean 'port'?
    === port: high
    cluster.yaml:8:47: spec.hosts[1].port: expected a whole number from 1 to 65535
      hint: `kubexm config schema cluster` describes every field
    === node[2:4]
    cluster.yaml:12:14: spec.roleGroups.worker[0]: spec.hosts does not contain 'node4'
      hint: `kubexm config schema cluster` describes every field
    === 1.36
    cluster.yaml:13:25: spec.kubernetes.version: expected text, found a number
      hint: put it in quotes: YAML reads 1.30 as the number 1.3
    === v1.36.3, type: systemd}
    cluster.yaml:5:3: spec.etcd.type: is kubeadm, and kubernetes.type is systemd: kubeadm does not run
      hint: set etcd.type: systemd, or etcd.type: external
    === name: node2
    cluster.yaml:9:7: spec.hosts[2]: another host has the name 'node2'
      hint: `kubexm config schema cluster` describes every field
    cluster.yaml:12:14: spec.roleGroups.worker[0]: spec.hosts does not contain 'node3'
      hint: `kubexm config schema cluster` describes every field
    === network: {podCIDR: 10.96.0.0/16}
      kubernetes:
    cluster.yaml:13:12: spec.network: podCIDR 10.96.0.0/16 and serviceCIDR 10.96.0.0/12 overlap
      hint: use two networks that do not overlap
    === network: {podCIDR: 10.0.0.0/16}
      kubernetes:
    cluster.yaml:13:12: spec.network: podCIDR 10.0.0.0/16 contains 10.0.0.11 of host node1
      hint: use a network that contains no host
    cluster.yaml:13:12: spec.network: podCIDR 10.0.0.0/16 contains 10.0.0.12 of host node2
      hint: use a network that contains no host
    cluster.yaml:13:12: spec.network: podCIDR 10.0.0.0/16 contains 10.0.0.13 of host node3
      hint: use a network that contains no host
    === master: [node1]
        loadbalancer: [node3]
    cluster.yaml:12:19: spec.roleGroups.loadbalancer: names hosts, and highAvailability.type does not use them
      hint: set highAvailability.type: keepalived-haproxy or keepalived-nginx, or remove the role
    === master: []
    cluster.yaml:11:5: spec.roleGroups.control-plane: is empty
      hint: name at least one host
    === master: [node1, node3]
    cluster.yaml:5:3: spec.controlPlaneEndpoint: is missing: several control planes need one address
      hint: give the address of your load balancer, as in api.example:6443
    === etcd: {type: external}
      kubernetes:
    cluster.yaml:13:9: spec.etcd.external: is missing
      hint: give endpoints, caFile, certFile and keyFile
    === etcd: {type: external, extraArgs: {a: b}, external: {endpoints: ["http://a:2379"], caFile: /no, certFile: /no, keyFile: /no}}
      kubernetes:
    cluster.yaml:13:37: spec.etcd.extraArgs: is not accepted with type: external
      hint: set it where that etcd is started
    cluster.yaml:13:67: spec.etcd.external.endpoints: expected https://host:port
      hint: kubexm connects to etcd with TLS only
    cluster.yaml:13:94: spec.etcd.external.caFile: the file /no does not exist
      hint: `kubexm config schema cluster` describes every field
    cluster.yaml:13:109: spec.etcd.external.certFile: the file /no does not exist
      hint: `kubexm config schema cluster` describes every field
    cluster.yaml:13:123: spec.etcd.external.keyFile: the file /no does not exist
      hint: `kubexm config schema cluster` describes every field
    === etcd: {type: external, external: {}}
      kubernetes:
    cluster.yaml:13:36: spec.etcd.external: endpoints, caFile, certFile and keyFile are missing
      hint: an external etcd needs endpoints, caFile, certFile and keyFile
    === etcd: {type: external, external: {endpoints: ["https://a:2379"], caFile: /no, certFile: /no}}
      kubernetes:
    cluster.yaml:13:36: spec.etcd.external: keyFile is missing
      hint: an external etcd needs endpoints, caFile, certFile and keyFile
    === etcd: {external: {endpoints: ["https://a:2379"]}}
      kubernetes:
    cluster.yaml:13:20: spec.etcd.external: is only accepted with type: external
      hint: set type: external, or remove this section
    === etcd: {type: systemd, dataDir: /a b, extraArgs: {initial-cluster: x}}
      kubernetes:
    cluster.yaml:13:34: spec.etcd.dataDir: contains characters that a systemd unit does not accept without quotes
      hint: use letters, digits, '/', '.', '_' and '-'
    cluster.yaml:13:51: spec.etcd.extraArgs: 'initial-cluster' is set by kubexm
      hint: remove the flag: dataDir sets the data directory, certSANs the names in the certificates, and roleGroups.etcd the members
    === etcd: {type: external, dataDir: /a}
      kubernetes:
    cluster.yaml:13:9: spec.etcd.external: is missing
      hint: give endpoints, caFile, certFile and keyFile
    cluster.yaml:13:35: spec.etcd.dataDir: is not accepted with type: external
      hint: set it where that etcd is started
    === registry: {type: external, port: 1, username: a}
      kubernetes:
    cluster.yaml:13:13: spec.registry.address: is missing
      hint: `kubexm config schema cluster` describes every field
    cluster.yaml:13:36: spec.registry.port: is not accepted with type: external
      hint: remove it, or change the type
    === registry: {address: a:1}
      kubernetes:
    cluster.yaml:13:23: spec.registry.address: is not accepted with type: local
      hint: remove it, or change the type
    === registry: {type: external, address: a.example}
      roleGroups:
        registry: [node2]
    cluster.yaml:12:15: spec.roleGroups.registry: names hosts, and registry.type is external
      hint: remove the role, or set registry.type: local
    === spec:
    	- a
    cluster.yaml:5:1: a tab indents this line
      hint: indent with spaces: YAML does not allow tabs
    === metadata: &a {name: demo}
    cluster.yaml:3:14: anchors and aliases are not accepted
      hint: write the value again instead of the alias
    === metadata: {name: demo, name: demo}
    cluster.yaml:3:24: the field 'name' is there twice
      hint: remove one of the two fields
    "#);
}

#[test]
fn all_faults_come_in_one_run() {
    let text = GOOD
        .replace("port: 2222", "port: 0")
        .replace("v1.36.3", "newest")
        .replace("worker:", "wroker:");
    let error = parse_cluster("cluster.yaml", &text).unwrap_err();
    assert!(error.list.is_sorted(), "{error}");
    insta::assert_snapshot!(error, @"
    cluster.yaml:8:47: spec.hosts[1].port: expected a whole number from 1 to 65535
      hint: `kubexm config schema cluster` describes every field
    cluster.yaml:12:5: spec.roleGroups.wroker: unknown field
      hint: did you mean 'worker'?
    cluster.yaml:13:25: spec.kubernetes.version: version 'newest': expected major.minor.patch, for example 1.36.3
      hint: `kubexm config schema cluster` describes every field
    ");
}

#[test]
fn huge_empty_and_deep_files_end_in_a_message() {
    let huge = "a: b\n".repeat(2_100_000);
    let deep = "[".repeat(100_000);
    let bomb = "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n";
    let mut all = String::new();
    for (file, text) in [
        ("huge", huge.as_str()),
        ("empty", " \n"),
        ("deep", &deep),
        ("bomb", bomb),
    ] {
        all += &format!("{}\n", parse_cluster(file, text).unwrap_err());
    }
    insta::assert_snapshot!(all, @"
    huge: is larger than 1 MiB, which is the most that kubexm reads
      hint: check that this is the right file
    empty: is empty
      hint: `kubexm config init` prints a file to start from
    deep:1:256: fields and lists are nested too deeply
      hint: close the brackets; kubexm accepts 64 levels
    bomb:1:7: anchors and aliases are not accepted
      hint: write the value again instead of the alias
    ");
}

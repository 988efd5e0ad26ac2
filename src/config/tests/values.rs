//! Values that reach files of the operating system: each has the grammar of its file, and is refused with its place.

use super::*;

/// Changes [`GOOD`], and returns the problems.
fn problems(from: &str, to: &str) -> Vec<Problem> {
    read_changed(from, to).map_or_else(|problems| problems.list, |_| Vec::new())
}

/// Fails unless the text has exactly one problem, at this path and on the line of the change.
fn refused(from: &str, to: &str, path: &str) {
    let problem = only_problem(read_changed(from, to), path, to);
    let line = GOOD.lines().position(|line| line.contains(from)).unwrap() + 1;
    assert_eq!(problem.line, line as u64, "{to}: {}", problem.message);
    assert!(problem.column > 1 && problem.hint.is_some(), "{problem:?}");
}

/// Adds a section in front of `kubernetes`, on the same line.
fn section_refused(section: &str, path: &str) {
    let to = format!("{section}\n  {KUBERNETES}");
    refused(KUBERNETES, &to, path);
}

/// Adds settings of Kubernetes.
fn kubernetes_refused(settings: &str, path: &str) {
    let to = format!("kubernetes: {{version: v1.36.3, {settings}}}");
    refused(KUBERNETES, &to, path);
}

#[test]
fn kernel_settings_have_one_line_each() {
    for (sysctl, key) in [
        (
            r#"kernel.panic: "1\nkernel.core_pattern = |/tmp/x""#,
            "kernel.panic",
        ),
        (r#""kernel.panic\nkernel.x": "1""#, "kernel.panic\nkernel.x"),
        (r#""../../etc/shadow": "1""#, "../../etc/shadow"),
        (r#""kernel.panic = 1 #": "1""#, "kernel.panic = 1 #"),
    ] {
        let path = format!("spec.system.sysctl.{key}");
        section_refused(&format!("system: {{sysctl: {{{sysctl}}}}}"), &path);
    }
    let good = "system: {sysctl: {kernel.panic: 10, net/ipv4/conf/eth0.5/rp_filter: \"1\", net.ipv4.tcp_rmem: 4096 1 2}}";
    let good = format!("{good}\n  {KUBERNETES}");
    assert_eq!(problems(KUBERNETES, &good), []);
}

/// systemd 257 does not mount such a path, quoted or escaped.
#[test]
fn directory_of_the_registry_can_be_mounted() {
    for path in [r#"'/srv/"images"'"#, r"'/srv/a\b'"] {
        section_refused(
            &format!("registry: {{dataDir: {path}}}"),
            "spec.registry.dataDir",
        );
    }
    let good = format!("registry: {{dataDir: '/srv/images of the site: 100%'}}\n  {KUBERNETES}");
    assert_eq!(problems(KUBERNETES, &good), []);
}

#[test]
fn modules_and_names_of_hosts_are_words() {
    for (fields, path) in [
        ("modules: [dm crypt]", "modules[0]"),
        (r#"modules: ["overlay\nx"]"#, "modules[0]"),
        ("hosts: {harbor.example: 192.0.2.5}", "hosts.harbor.example"),
        (r#"hosts: {192.0.2.5: ["a b"]}"#, "hosts.192.0.2.5[0]"),
        (
            r#"hosts: {192.0.2.5: ["a\n0.0.0.0 b"]}"#,
            "hosts.192.0.2.5[0]",
        ),
        ("timezone: ../../etc/shadow", "timezone"),
        ("resolvers: {searches: a.example}", "resolvers.servers"),
        ("resolvers: {servers: []}", "resolvers.servers"),
        ("resolvers: {servers: dns.example}", "resolvers.servers"),
        ("resolvers: {servers: [127.0.0.53]}", "resolvers.servers[0]"),
        (
            r#"resolvers: {servers: ["192.0.2.53\noptions debug"]}"#,
            "resolvers.servers[0]",
        ),
        (
            "resolvers: {servers: [192.0.2.1, 192.0.2.2, 192.0.2.3, 192.0.2.4]}",
            "resolvers.servers",
        ),
        (
            r#"resolvers: {servers: 192.0.2.53, searches: ["a\nb"]}"#,
            "resolvers.searches[0]",
        ),
        ("time: {}", "time"),
        (r#"time: {servers: ["a b"]}"#, "time.servers[0]"),
        (r#"time: {servers: ["a\nallow all"]}"#, "time.servers[0]"),
        ("time: {source: node9}", "time.source"),
        ("manageHostsFile: false, hosts: {192.0.2.5: a}", "hosts"),
    ] {
        section_refused(
            &format!("system: {{{fields}}}"),
            &format!("spec.system.{path}"),
        );
    }
}

#[test]
fn names_that_no_node_can_have_are_refused() {
    let named = |name: &str, sections: &str| {
        let text = GOOD
            .replace("node3", name)
            .replace("\"node[2:3]\"", "node2")
            .replace(KUBERNETES, &format!("{sections}{KUBERNETES}"));
        parse_cluster("cluster.yaml", &text)
    };
    named(&format!("{0}.{0}", "a".repeat(31)), "").unwrap();
    let long = format!("{0}.{1}", "a".repeat(31), "a".repeat(32));
    for name in [
        &long,
        "localhost",
        "node3.localhost",
        "registry.kubexm.internal",
    ] {
        only_problem(named(name, ""), "spec.hosts[2].name", name);
    }
    let endpoint = |address: &str| {
        format!(
            "controlPlaneEndpoint: {{host: node3, address: {address}}}\n  highAvailability: {{type: external}}\n  "
        )
    };
    only_problem(
        named("node3", &endpoint("10.0.0.9")),
        "spec.hosts[2].name",
        "endpoint",
    );
}

/// YAML 1.1 reads some words as truth values, and some as numbers.
#[test]
fn text_that_yaml_reads_as_something_else_is_refused() {
    for (written, read) in [
        ("y", "true"),
        ("on", "true"),
        ("no", "false"),
        ("0x1f", "31"),
        ("1_000", "1000"),
    ] {
        let text = GOOD.replace("{name: node1,", &format!("{{name: {written},"));
        let problems = parse_cluster("cluster.yaml", &text).unwrap_err();
        let found = problems
            .list
            .iter()
            .find(|problem| problem.path == "spec.hosts[0].name");
        let found = found.unwrap_or_else(|| panic!("{written}: {problems}"));
        let expected = format!("expected text, and YAML reads {written} as {read}");
        assert_eq!(found.message, expected);
        let hint = format!("put it in quotes: '{written}'");
        assert_eq!(found.hint.as_deref(), Some(hint.as_str()));
        let quoted = text.replace(&format!("name: {written},"), &format!("name: '{written}',"));
        let quoted = parse_cluster("cluster.yaml", &quoted).unwrap_err();
        let path = "spec.hosts[0].name";
        // `0x1f` is a valid name, `1_000` is not.
        let is_refused = quoted.list.iter().any(|problem| problem.path == path);
        assert_eq!(is_refused, written == "1_000", "{quoted}");
    }
    // As the user means them.
    for value in ["1", "true", "-5"] {
        let read = read(&format!("apiServer: {{extraArgs: {{v: {value}}}}}"), "");
        assert!(read.is_ok(), "{value}: {}", read.unwrap_err());
    }
}

#[test]
fn labels_and_taints_have_the_form_of_the_api() {
    let host = "{name: node3, address: 10.0.0.13}";
    let with = |field: &str| format!("{{name: node3, address: 10.0.0.13, {field}}}");
    for (field, path) in [
        ("labels: {a b: x}", "labels.a b"),
        ("labels: {\"x,y\": x}", "labels.x,y"),
        ("labels: {disk: a b}", "labels.disk"),
        ("labels: {disk: \"x,y=z\"}", "labels.disk"),
        ("labels: {disk: \"a\\nb\"}", "labels.disk"),
        ("taints: [\"a b=c:NoSchedule\"]", "taints[0]"),
        ("taints: [\"a=b c:NoSchedule\"]", "taints[0]"),
        ("taints: [\"a=b\\nc:NoSchedule\"]", "taints[0]"),
    ] {
        refused(host, &with(field), &format!("spec.hosts[2].{path}"));
    }
    let defaults = "defaults: {user: ops, password: sesame}";
    let labels = "defaults: {user: ops, password: sesame, labels: {a b: x}}";
    let list = problems(defaults, labels);
    assert_eq!(list[0].path, "spec.defaults.labels.a b");
    let good = with(
        "labels: {disk: ssd, example.org/a: 1, topology.kubernetes.io/zone: b, node.kubernetes.io/x: z}, \
         taints: [\"dedicated=db:NoSchedule\", \"example.org/a:NoExecute\"]",
    );
    assert_eq!(problems(host, &good), []);
}

#[test]
fn nodes_may_have_labels_that_a_kubelet_may_not_set() {
    let kubeadm = GOOD.replace(
        "10.0.0.13}",
        "10.0.0.13, labels: {node-role.kubernetes.io/db: \"\", example.k8s.io/db: \"\"}}",
    );
    parse_cluster("cluster.yaml", &kubeadm).unwrap();
    let systemd = kubeadm.replace(
        KUBERNETES,
        "etcd: {type: systemd}\n  kubernetes: {version: v1.36.3, type: systemd}",
    );
    parse_cluster("cluster.yaml", &systemd).unwrap();
}

#[test]
fn addresses_and_users_of_hosts_have_no_separators() {
    for (from, to, path) in [
        (
            "10.0.0.13",
            "\"10.0.0.13\\n192.0.2.1 evil\", internalAddress: 10.0.0.13",
            "spec.hosts[2].address",
        ),
        (
            "10.0.0.13",
            "-oProxyCommand=x, internalAddress: 10.0.0.13",
            "spec.hosts[2].address",
        ),
        ("user: root", "user: \"a b\"", "spec.hosts[1].user"),
        ("user: root", "user: \"root\\nx\"", "spec.hosts[1].user"),
        (
            "password: sesame",
            "password: \"sesame\\nrm\"",
            "spec.defaults.password",
        ),
        ("name: demo", "name: \"demo\\nx\"", "metadata.name"),
        (
            "name: node3",
            "name: \"node3\\n1.2.3.4 x\"",
            "spec.hosts[2].name",
        ),
    ] {
        let list = problems(from, to);
        assert_eq!(
            list.first().map(|one| one.path.as_str()),
            Some(path),
            "{list:#?}"
        );
        assert!(!format!("{list:?}").contains("sesame"));
    }
}

#[test]
fn settings_of_kubernetes_have_one_line() {
    for (settings, path) in [
        ("clusterName: \"a\\nb\"", "clusterName"),
        ("clusterName: \"a\\u2028b\"", "clusterName"),
        ("dnsDomain: \"a\\nb\"", "dnsDomain"),
        ("apiServer: {certSANs: ['a\"b']}", "apiServer.certSANs[0]"),
        (
            "apiServer: {certSANs: [api.example, \"a\\nb\"]}",
            "apiServer.certSANs[1]",
        ),
        (
            "apiServer: {extraArgs: {--v: 2}}",
            "apiServer.extraArgs.--v",
        ),
        (
            "apiServer: {extraArgs: {v: \"2\\nx\"}}",
            "apiServer.extraArgs.v",
        ),
        (
            "scheduler: {extraArgs: {\"a\\nb\": x}}",
            "scheduler.extraArgs.a\nb",
        ),
        (
            "controllerManager: {extraArgs: {v: \"2\\n\"}}",
            "controllerManager.extraArgs.v",
        ),
        (
            "kubelet: {featureGates: {\"A=true,B\": true}}",
            "kubelet.featureGates.A=true,B",
        ),
        (
            "kubeProxy: {extraArgs: {v=1: x}}",
            "kubeProxy.extraArgs.v=1",
        ),
        (
            "kubeadm: {ignorePreflightErrors: [\"a\\nb\"]}",
            "kubeadm.ignorePreflightErrors[0]",
        ),
    ] {
        kubernetes_refused(settings, &format!("spec.kubernetes.{path}"));
    }
    let good = "clusterName: 'a b \"c\"', apiServer: {certSANs: [api.example, '*.example', 10.0.0.9], \
                extraArgs: {v: 2, audit-log-path: /a b}}";
    let good = format!("kubernetes: {{version: v1.36.3, {good}}}");
    assert_eq!(problems(KUBERNETES, &good), []);
}

#[test]
fn addresses_of_other_programs_have_no_line_breaks() {
    let endpoint = "spec.controlPlaneEndpoint";
    for (section, path) in [
        ("controlPlaneEndpoint: \"api x:6443\"", endpoint),
        ("controlPlaneEndpoint: \"api\\n1.2.3.4 x:6443\"", endpoint),
        (
            "controlPlaneEndpoint: {domain: \"api\\nx\"}",
            "spec.controlPlaneEndpoint.domain",
        ),
        (
            "controlPlaneEndpoint: {host: \"api x\"}",
            "spec.controlPlaneEndpoint.host",
        ),
        ("etcd: {extraArgs: {a: \"b\\nc\"}}", "spec.etcd.extraArgs.a"),
        ("registry: {hostName: \"a\\nb\"}", "spec.registry.hostName"),
        ("registry: {dataDir: \"/a\\nb\"}", "spec.registry.dataDir"),
        (
            "registry: {type: external, address: \"a\\nb\"}",
            "spec.registry.address",
        ),
        (
            "registry: {type: external, address: a.example, project: \"a\\nb\"}",
            "spec.registry.address",
        ),
        ("dns: {upstreams: \"192.0.2.53\\nx\"}", "spec.dns.upstreams"),
        (
            "dns: {zones: [{name: \"a b\", servers: [192.0.2.53]}]}",
            "spec.dns.zones[0].name",
        ),
        (
            "dns: {nodeLocal: {address: \"169.254.20.10\\n\"}}",
            "spec.dns.nodeLocal.address",
        ),
        (
            "network: {podCIDR: \"10.244.0.0/16\\n\"}",
            "spec.network.podCIDR",
        ),
    ] {
        section_refused(section, path);
    }
    let list = problems(
        KUBERNETES,
        "registry: {type: external, address: a.example, username: \"a:b\", passwordFile: /dev/null}\n  kubernetes: {version: v1.36.3}",
    );
    assert!(
        list.iter().any(|one| one.path == "spec.registry.username"),
        "{list:#?}"
    );
    let list = problems(
        KUBERNETES,
        "etcd: {type: external, external: {endpoints: [\"https://a:2379\\n\"], caFile: /etc/hosts, certFile: /etc/hosts, keyFile: /etc/hosts}}\n  kubernetes: {version: v1.36.3}",
    );
    assert_eq!(list[0].path, "spec.etcd.external.endpoints", "{list:#?}");
}

#[test]
fn addresses_of_the_site_in_networks_of_the_cluster_are_refused() {
    let external = "external: {endpoints: [\"https://10.244.0.9:2379\"], caFile: /no, certFile: /no, keyFile: /no}";
    let etcd = format!("etcd: {{type: external, {external}}}");
    for (section, path) in [
        (
            "system: {resolvers: {servers: [192.0.2.53, 10.96.0.53]}}",
            "spec.system.resolvers.servers",
        ),
        (
            "system: {time: {servers: [10.100.0.1]}}",
            "spec.system.time.servers",
        ),
        (
            "controlPlaneEndpoint: {host: api.example, address: 10.244.7.7}",
            "spec.controlPlaneEndpoint",
        ),
        (
            "registry: {type: external, address: \"10.97.1.1:5000\"}",
            "spec.registry.address",
        ),
        (etcd.as_str(), "spec.etcd.external.endpoints"),
    ] {
        let found = read("", &format!("  {section}\n"));
        let Err(found) = found else {
            panic!("{section} is accepted");
        };
        let is_it = |problem: &&Problem| problem.message.contains("which is in network.");
        let paths: Vec<&str> = found
            .list
            .iter()
            .filter(is_it)
            .map(|one| one.path.as_str())
            .collect();
        assert_eq!(paths, [path], "{section}: {:?}", found.list);
    }
    // The address of a login is not that of the cluster.
    let host = "{name: node3, address: 10.244.9.3, internalAddress: 10.0.0.13}";
    let found = problems("{name: node3, address: 10.0.0.13}", host);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].message.contains("10.244.9.3 of host node3"),
        "{found:?}"
    );
    let jump = "{user: ops, password: sesame, jumpHost: {address: 10.244.0.1, user: ops}}";
    let found = problems("{user: ops, password: sesame}", jump);
    assert_eq!(found.len(), 1, "{found:?}");
}

//! What stands before the API servers.

use super::{GOOD, faults, read};
use crate::parse_cluster;

#[test]
fn every_fault_is_named_with_its_place_and_a_hint() {
    let told = faults([
        (
            "kubernetes:",
            "highAvailability: {type: external}\n  kubernetes:",
        ),
        (
            "kubernetes:",
            "highAvailability: {type: kube-vip}\n  kubernetes:",
        ),
        (
            "kubernetes:",
            "highAvailability: {type: kube-vip}\n  controlPlaneEndpoint: 10.0.0.9:8443\n  kubernetes:",
        ),
        (
            "kubernetes:",
            "highAvailability: {type: kube-vip}\n  controlPlaneEndpoint: 10.0.0.12:6443\n  kubernetes:",
        ),
        (
            "kubernetes:",
            "highAvailability: {type: keepalived-haproxy}\n  controlPlaneEndpoint: {address: \"fd00::9\", port: 8443}\n  kubernetes:",
        ),
        (
            "kubernetes:",
            "highAvailability: {type: keepalived-haproxy}\n  controlPlaneEndpoint: 10.0.0.9:6443\n  kubernetes:",
        ),
        (
            "kubernetes:",
            "highAvailability: {type: keepalived-nginx}\n  controlPlaneEndpoint: 10.0.0.9:5000\n  kubernetes:",
        ),
        (
            "kubernetes:",
            "highAvailability: {type: haproxy}\n  controlPlaneEndpoint: 127.0.0.1:6443\n  kubernetes:",
        ),
        (
            "kubernetes:",
            "highAvailability: {type: nginx}\n  controlPlaneEndpoint: 10.0.0.9:7443\n  kubernetes:",
        ),
        (
            "kubernetes:",
            "highAvailability: {type: nginx}\n  controlPlaneEndpoint: {domain: api.example, port: 443}\n  kubernetes:",
        ),
        (
            "kubernetes:",
            "highAvailability: {type: nginx}\n  controlPlaneEndpoint: api.example\n  system: {manageHostsFile: false}\n  kubernetes:",
        ),
        (
            "kubernetes:",
            "highAvailability: {type: kube-vip, run: static-pod}\n  controlPlaneEndpoint: 10.0.0.9:6443\n  kubernetes:",
        ),
        (
            "kubernetes:",
            "highAvailability: {type: haproxy, run: docker}\n  kubernetes:",
        ),
        (
            "kubernetes:",
            "highAvailability: {type: haproxy, virtualRouterID: 7}\n  kubernetes:",
        ),
        (
            "kubernetes:",
            "highAvailability: {type: keepalived-haproxy, virtualRouterID: 256}\n  controlPlaneEndpoint: 10.0.0.9:8443\n  kubernetes:",
        ),
    ]);
    insta::assert_snapshot!(told, @r#"
    === highAvailability: {type: external}
      kubernetes:
    cluster.yaml:13:21: spec.controlPlaneEndpoint: is missing, and highAvailability.type is external
      hint: give the address of your load balancer, as in api.example:6443
    === highAvailability: {type: kube-vip}
      kubernetes:
    cluster.yaml:5:3: spec.controlPlaneEndpoint: has no address for the load balancer
      hint: give a free address of the hosts' network, as in {domain: api.example, address: 192.0.2.10}
    === highAvailability: {type: kube-vip}
      controlPlaneEndpoint: 10.0.0.9:8443
      kubernetes:
    cluster.yaml:14:25: spec.controlPlaneEndpoint: has port 8443, but kube-vip forwards no ports
      hint: set port: 6443, on which the API servers listen
    === highAvailability: {type: kube-vip}
      controlPlaneEndpoint: 10.0.0.12:6443
      kubernetes:
    cluster.yaml:14:25: spec.controlPlaneEndpoint: has the address of host node2
      hint: give a free address: the load balancer assigns it to a host
    === highAvailability: {type: keepalived-haproxy}
      controlPlaneEndpoint: {address: "fd00::9", port: 8443}
      kubernetes:
    cluster.yaml:14:25: spec.controlPlaneEndpoint: has the address fd00::9, which has another address family than 10.0.0.11 of host node1
      hint: give a free address of the network of the hosts' internal addresses
    === highAvailability: {type: keepalived-haproxy}
      controlPlaneEndpoint: 10.0.0.9:6443
      kubernetes:
    cluster.yaml:14:25: spec.controlPlaneEndpoint: has port 6443, which the API server uses on node1, where the proxy runs
      hint: set another port, as in port: 8443, or name hosts in roleGroups.loadbalancer that are not control planes
    === highAvailability: {type: keepalived-nginx}
      controlPlaneEndpoint: 10.0.0.9:5000
      kubernetes:
    cluster.yaml:14:25: spec.controlPlaneEndpoint: has port 5000, which the registry uses on node1, where the proxy runs
      hint: set another port, as in port: 7443
    === highAvailability: {type: haproxy}
      controlPlaneEndpoint: 127.0.0.1:6443
      kubernetes:
    cluster.yaml:14:25: spec.controlPlaneEndpoint: has port 6443, which the API server uses on node1, where the proxy runs
      hint: set another port, as in port: 7443
    === highAvailability: {type: nginx}
      controlPlaneEndpoint: 10.0.0.9:7443
      kubernetes:
    cluster.yaml:14:25: spec.controlPlaneEndpoint: has an address, but the proxy of each node listens on loopback only
      hint: remove the address, or the whole section
    === highAvailability: {type: nginx}
      controlPlaneEndpoint: {domain: api.example, port: 443}
      kubernetes:
    cluster.yaml:14:25: spec.controlPlaneEndpoint: has a port below 1024, on which only root may listen
      hint: remove the port, or set one above 1023, as in port: 7443
    === highAvailability: {type: nginx}
      controlPlaneEndpoint: api.example
      system: {manageHostsFile: false}
      kubernetes:
    cluster.yaml:14:25: spec.controlPlaneEndpoint: has a name, which each host must resolve to itself, and system.manageHostsFile is false
      hint: remove the section: 127.0.0.1 needs no name
    === highAvailability: {type: kube-vip, run: static-pod}
      controlPlaneEndpoint: 10.0.0.9:6443
      kubernetes:
    cluster.yaml:13:43: spec.highAvailability.run: is only accepted with type: keepalived-haproxy or keepalived-nginx or haproxy or nginx
      hint: remove it: the programs of this type run in one way only
    === highAvailability: {type: haproxy, run: docker}
      kubernetes:
    cluster.yaml:13:42: spec.highAvailability.run: unknown value 'docker'
      hint: kubexm [version] accepts: systemd, static-pod
    === highAvailability: {type: haproxy, virtualRouterID: 7}
      kubernetes:
    cluster.yaml:13:54: spec.highAvailability.virtualRouterID: is only accepted with type: keepalived-haproxy or keepalived-nginx
      hint: remove it: only these types use VRRP
    === highAvailability: {type: keepalived-haproxy, virtualRouterID: 256}
      controlPlaneEndpoint: 10.0.0.9:8443
      kubernetes:
    cluster.yaml:13:65: spec.highAvailability.virtualRouterID: expected a whole number from 1 to 255
      hint: `kubexm config schema cluster` describes every field
    "#);
}

#[test]
fn load_balancers_lead_every_node_to_an_endpoint() {
    let endpoint = |added: &str| {
        let text = GOOD.replace("master: [node1]", "master: [node1, node2]");
        let text = text.replace("  kubernetes:", &format!("  {added}\n  kubernetes:"));
        let cluster = parse_cluster("cluster.yaml", &text).unwrap();
        let endpoint = cluster.control_plane_endpoint;
        let address = endpoint.address.map(|address| address.to_string());
        (endpoint.to_string(), address.unwrap_or_default())
    };
    let here = |text: &str| (text.to_owned(), String::new());
    assert_eq!(
        endpoint("highAvailability: {type: haproxy}"),
        here("127.0.0.1:7443")
    );
    let named =
        "highAvailability: {type: nginx, run: static-pod}\n  controlPlaneEndpoint: api.example";
    assert_eq!(
        endpoint(named),
        ("api.example:7443".to_owned(), "127.0.0.1".to_owned())
    );
    let mapped = "highAvailability: {type: nginx}\n  controlPlaneEndpoint: {domain: api.example, port: 9443}";
    assert_eq!(
        endpoint(mapped),
        ("api.example:9443".to_owned(), "127.0.0.1".to_owned())
    );
    let vip = "highAvailability: {type: kube-vip}\n  controlPlaneEndpoint: 10.0.0.9";
    assert_eq!(endpoint(vip), here("10.0.0.9:6443"));
    // Hosts that are not control planes have 6443 free.
    let text = GOOD
        .replace(
            "master: [node1]",
            "master: [node1, node2]\n    loadbalancer: [node3]",
        )
        .replace(
            "  kubernetes:",
            "  highAvailability: {type: keepalived-haproxy}\n  controlPlaneEndpoint: 10.0.0.9\n  kubernetes:",
        );
    let cluster = parse_cluster("cluster.yaml", &text).unwrap();
    assert_eq!(cluster.roles.load_balancer.len(), 1);
}

#[test]
fn settings_of_balancers_fit_the_type_and_the_hosts() {
    let read = |settings: &str| {
        let endpoint = "  controlPlaneEndpoint: {address: 10.0.0.9, port: 8443}\n";
        read(
            "",
            &format!("  highAvailability: {{{settings}}}\n{endpoint}"),
        )
    };
    let good = "type: keepalived-haproxy, interface: bond0, interfaces: {node1: bond1}, keepalived: {priorities: {node1: 150}}, haproxy: {log: true}";
    let cluster = read(good).unwrap();
    let keepalived = &cluster.high_availability.keepalived;
    assert_eq!(keepalived.priority(&cluster.hosts[0].name), 150);
    let interface = |host: &str| {
        let name = cluster
            .high_availability
            .interface_of(&host.parse().unwrap());
        name.unwrap().to_string()
    };
    assert_eq!([interface("node1"), interface("node2")], ["bond1", "bond0"]);
    let names: Vec<_> = cluster.hosts.iter().map(|host| host.name.clone()).collect();
    assert_eq!(keepalived.decrease(&names), 70);
    for (settings, expected) in [
        (
            "type: haproxy, interface: bond0",
            "only accepted with type: keepalived-haproxy",
        ),
        (
            "type: haproxy, nginx: {extraConfig: a}",
            "only accepted with type: keepalived-nginx or nginx",
        ),
        ("type: nginx, nginx: {log: true}", "unknown field"),
        (
            "type: keepalived-nginx, interface: a/b",
            "expected a name that `ip link` shows",
        ),
        (
            "type: haproxy, interfaces: {node1: bond0}",
            "only accepted with type: keepalived-haproxy",
        ),
        (
            "type: kube-vip, interfaces: {node1: a/b}",
            "expected a name that `ip link` shows",
        ),
        (
            "type: kube-vip, interfaces: {node2: bond0}",
            "never has the address",
        ),
        (
            "type: keepalived-nginx, keepalived: {priorities: {node1: 255}}",
            "from 1 to 254",
        ),
        (
            "type: keepalived-nginx, keepalived: {priorities: {node2: 120}}",
            "never has the address",
        ),
        (
            "type: keepalived-nginx, keepalived: {passwordFile: /none}",
            "does not exist",
        ),
        (
            "type: keepalived-nginx, keepalived: {notifyScript: /none}",
            "does not exist",
        ),
        (
            "type: kube-vip, kubeVip: {env: {vip_interface: a}}",
            "is set by kubexm",
        ),
        (
            "type: kube-vip, kubeVip: {env: {vip_leasename: a}}",
            "is set by kubexm",
        ),
        (
            "type: kube-vip, kubeVip: {env: {vip_leaderelection: \"false\"}}",
            "one control plane must announce",
        ),
    ] {
        let problems = read(settings).expect_err(settings).to_string();
        assert!(problems.contains(expected), "{settings}: {problems}");
    }
}

/// kubexm issues a kubeconfig for kube-vip. The proxies start with a file of kubeadm.
#[test]
fn of_the_static_pods_only_kube_vip_runs_without_kubeadm() {
    let etcd = "  etcd: {type: systemd}\n";
    let vip = "  highAvailability: {type: kube-vip}\n  controlPlaneEndpoint: 10.0.0.9\n";
    let cluster = read("type: systemd", &format!("{etcd}{vip}")).unwrap();
    assert_eq!(cluster.control_plane_endpoint.to_string(), "10.0.0.9:6443");
    let proxy = "  highAvailability: {type: haproxy, run: static-pod}\n";
    let refused = read("type: systemd", &format!("{etcd}{proxy}"));
    super::only_problem(refused, "spec.highAvailability", proxy);
    for (roles, expected) in [
        ("loadbalancer: [node1]", None),
        ("loadbalancer: [node1, node3]", Some("node3 is not a node")),
        ("loadbalancer: [node2]", Some("the first control plane")),
    ] {
        let text = crate::example::text_of(
            &format!("{}, {roles}", crate::example::ROLES),
            "",
            "highAvailability: {type: keepalived-haproxy, run: static-pod}\ncontrolPlaneEndpoint: 10.0.0.9:8443",
        );
        let read = crate::parse_cluster("cluster.yaml", &text);
        match expected {
            Some(expected) => {
                let problems = read.unwrap_err().to_string();
                assert!(problems.contains(expected), "{problems}");
            }
            None => {
                let programs = read.unwrap().high_availability.kind.programs();
                assert_eq!(programs, ["keepalived", "haproxy pod"]);
            }
        }
    }
    for (env, elects) in [
        ("", false),
        ("svc_election: true", true),
        ("svc_election: 'false'", false),
    ] {
        let vip = format!(
            "  highAvailability: {{type: kube-vip, kubeVip: {{env: {{{env}}}}}}}\n  controlPlaneEndpoint: 10.0.0.9\n"
        );
        let cluster = read("", &vip).unwrap();
        assert_eq!(
            cluster.high_availability.kube_vip.elects_by_service(),
            elects,
            "{env}"
        );
    }
}

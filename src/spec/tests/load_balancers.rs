//! What stands before the API servers.

use super::{GOOD, are_named};
use crate::spec::parse_cluster;

#[test]
fn every_fault_is_named_with_its_place_and_a_hint() {
    are_named([
        (
            "kubernetes:",
            "highAvailability: {type: external}\n  kubernetes:",
            vec!["spec.controlPlaneEndpoint is missing"],
        ),
        (
            "kubernetes:",
            "highAvailability: {type: kube-vip}\n  kubernetes:",
            vec!["has no address that the load balancer could hold"],
        ),
        (
            "kubernetes:",
            "highAvailability: {type: kube-vip}\n  controlPlaneEndpoint: 10.0.0.9:8443\n  kubernetes:",
            vec!["has port 8443, and kube-vip only moves", "set port: 6443"],
        ),
        (
            "kubernetes:",
            "highAvailability: {type: kube-vip}\n  controlPlaneEndpoint: 10.0.0.12:6443\n  kubernetes:",
            vec!["has the address of host node2"],
        ),
        (
            "kubernetes:",
            "highAvailability: {type: kubexm-ah}\n  controlPlaneEndpoint: {address: \"fd00::9\", port: 8443}\n  kubernetes:",
            vec!["of another family than 10.0.0.11 of host node1"],
        ),
        (
            "kubernetes:",
            "highAvailability: {type: kubexm-ah}\n  controlPlaneEndpoint: 10.0.0.9:6443\n  kubernetes:",
            vec![
                "has port 6443, which the API server has on node1",
                "hosts that are no control planes",
            ],
        ),
        (
            "kubernetes:",
            "highAvailability: {type: kubexm-an}\n  controlPlaneEndpoint: 10.0.0.9:5000\n  kubernetes:",
            vec!["has port 5000, which the registry has on node1"],
        ),
        (
            "kubernetes:",
            "highAvailability: {type: haproxy}\n  controlPlaneEndpoint: 127.0.0.1:6443\n  kubernetes:",
            vec![
                "has port 6443, which the API server has on node1",
                "port: 7443",
            ],
        ),
        (
            "kubernetes:",
            "highAvailability: {type: nginx}\n  controlPlaneEndpoint: 10.0.0.9:7443\n  kubernetes:",
            vec!["which listens on loopback only"],
        ),
        (
            "kubernetes:",
            "highAvailability: {type: nginx}\n  controlPlaneEndpoint: {domain: api.example, port: 443}\n  kubernetes:",
            vec!["a port below 1024"],
        ),
        (
            "kubernetes:",
            "highAvailability: {type: nginx}\n  controlPlaneEndpoint: api.example\n  system: {manageHostsFile: false}\n  kubernetes:",
            vec!["has a name, which must lead every host to itself"],
        ),
        (
            "kubernetes:",
            "highAvailability: {type: kubexm-ah, run: static-pod}\n  controlPlaneEndpoint: 10.0.0.9:8443\n  kubernetes:",
            vec!["highAvailability.run is taken only with type: haproxy or nginx"],
        ),
        (
            "kubernetes:",
            "highAvailability: {type: haproxy, run: docker}\n  kubernetes:",
            vec!["'docker' is unknown", "systemd, static-pod"],
        ),
        (
            "kubernetes:",
            "highAvailability: {type: haproxy, virtualRouterID: 7}\n  kubernetes:",
            vec!["virtualRouterID is taken only with type: kubexm-ah"],
        ),
        (
            "kubernetes:",
            "highAvailability: {type: kubexm-ah, virtualRouterID: 256}\n  controlPlaneEndpoint: 10.0.0.9:8443\n  kubernetes:",
            vec!["wants a whole number from 1 to 255"],
        ),
    ]);
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
    // Hosts that are no control planes have 6443 free.
    let text = GOOD
        .replace(
            "master: [node1]",
            "master: [node1, node2]\n    loadbalancer: [node3]",
        )
        .replace(
            "  kubernetes:",
            "  highAvailability: {type: kubexm-ah}\n  controlPlaneEndpoint: 10.0.0.9\n  kubernetes:",
        );
    let cluster = parse_cluster("cluster.yaml", &text).unwrap();
    assert_eq!(cluster.roles.load_balancer.len(), 1);
}

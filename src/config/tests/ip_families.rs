//! Address families of networks and hosts.

use super::{GOOD, of_ipv6};
use crate::cluster::IpFamily;
use crate::{Cluster, Problems, parse_cluster};

const PODS: &str = "10.244.0.0/16,fd00:10:244::/56";
const SERVICES: &str = "10.96.0.0/12,fd00:10:96::/112";

/// The hosts of [`GOOD`] with an address of each family.
fn dual_hosts() -> String {
    let mut text = GOOD.to_owned();
    for host in ["10.0.0.11", "10.0.0.12", "10.0.0.13"] {
        let number = &host[7..];
        let both = format!("address: {host}, internalAddress: \"{host},fdab::{number}\"");
        text = text.replace(&format!("address: {host}"), &both);
    }
    text
}

/// Adds these networks to a cluster file.
fn with(text: &str, pods: &str, services: &str, more: &str) -> String {
    let network = format!(
        "  network: {{plugin: bridge, podCIDR: \"{pods}\", serviceCIDR: \"{services}\"}}\n  kubernetes: {{{more}"
    );
    text.replace("  kubernetes: {", &network)
}

fn parse(text: &str) -> Result<Cluster, Problems> {
    parse_cluster("cluster.yaml", text)
}

#[test]
fn cluster_has_one_or_both_address_families() {
    let cluster = parse(&with(&dual_hosts(), PODS, SERVICES, "")).unwrap();
    assert_eq!(cluster.network.pod_cidr.to_string(), PODS);
    assert_eq!(cluster.network.service_cidr.to_string(), SERVICES);
    assert_eq!(cluster.network.dns_address.to_string(), "10.96.0.10");
    let first: Vec<String> = cluster
        .network
        .first_service_addresses()
        .map(|address| address.to_string())
        .collect();
    assert_eq!(first, ["10.96.0.1", "fd00:10:96::1"]);
    assert_eq!(cluster.hosts[0].internal_address().to_string(), "10.0.0.11");
    let both = cluster.hosts[0].internal_addresses.to_string();
    assert_eq!(both, "10.0.0.11,fdab::11");
    let text = with(&of_ipv6(GOOD), "fd00:10:244::/56", "fd00:10:96::/112", "");
    let families: Vec<IpFamily> = parse(&text).unwrap().network.families().collect();
    assert_eq!(families, [IpFamily::V6]);
}

#[test]
fn families_that_do_not_fit_are_refused_with_the_way_out() {
    let dual = dual_hosts();
    let one_host = dual.replace("10.0.0.12,fdab::12", "10.0.0.12");
    let reversed = dual.replace("10.0.0.13,fdab::13", "fdab::13,10.0.0.13");
    let size = "controllerManager: {extraArgs: {node-cidr-mask-size: 25}}, ";
    let sizes = "controllerManager: {extraArgs: {node-cidr-mask-size-ipv6: 57}}, ";
    let cases = [
        (
            "pods of both families",
            with(&dual, PODS, "10.96.0.0/12", ""),
        ),
        (
            "services of both families",
            with(&dual, "10.244.0.0/16", SERVICES, ""),
        ),
        (
            "services in another order",
            with(&dual, PODS, "fd00:10:96::/112,10.96.0.0/12", ""),
        ),
        (
            "services of another family",
            with(GOOD, "10.244.0.0/16", "fd00:10:96::/112", ""),
        ),
        (
            "hosts of another family",
            with(GOOD, "fd00:10:244::/56", "fd00:10:96::/112", ""),
        ),
        ("a host of one family", with(&one_host, PODS, SERVICES, "")),
        (
            "a host in another order",
            with(&reversed, PODS, SERVICES, ""),
        ),
        (
            "hosts of both families",
            with(&dual, "10.244.0.0/16", "10.96.0.0/12", ""),
        ),
        (
            "two networks of one family",
            with(&dual, "10.244.0.0/16,10.245.0.0/16", SERVICES, ""),
        ),
        (
            "a blank",
            with(&dual, "10.244.0.0/16, fd00:10:244::/56", SERVICES, ""),
        ),
        (
            "three addresses",
            with(
                &dual.replace("fdab::11", "fdab::11,fdab::21"),
                PODS,
                SERVICES,
                "",
            ),
        ),
        (
            "no address",
            with(&dual.replace("fdab::11", "node1"), PODS, SERVICES, ""),
        ),
        (
            "overlap of the second networks",
            with(&dual, PODS, "10.96.0.0/12,fd00:10:244::/112", ""),
        ),
        (
            "a network with the second address of hosts",
            with(&dual, "10.244.0.0/16,fdab::/56", SERVICES, ""),
        ),
        (
            "large services",
            with(&dual, PODS, "10.96.0.0/12,fd00:10:96::/64", ""),
        ),
        (
            "one node's network",
            with(&dual, "10.244.0.0/16,fd00:10:244::/64", SERVICES, ""),
        ),
        (
            "less than one node's network",
            with(&dual, "10.244.0.0/25,fd00:10:244::/56", SERVICES, ""),
        ),
        (
            "too many networks of nodes",
            with(&dual, "10.244.0.0/16,fd00:20::/32", SERVICES, ""),
        ),
        (
            "a size for both families",
            with(&dual, PODS, SERVICES, size),
        ),
        (
            "a size of the user",
            with(&dual, "10.244.0.0/16,fd00:10:244::/56", SERVICES, sizes),
        ),
        (
            "a plugin of one family",
            with(&dual, PODS, SERVICES, "").replace("plugin: bridge", "plugin: calico"),
        ),
    ];
    let told: String = cases
        .iter()
        .map(|(case, text)| format!("=== {case}\n{}\n", parse(text).expect_err(case)))
        .collect();
    insta::assert_snapshot!(told, @"
    === pods of both families
    cluster.yaml:13:85: spec.network.serviceCIDR: has one network, and podCIDR has one of each address family
      hint: add a network after a comma, as in 10.96.0.0/12,fd00:10:96::/112, or write one network into podCIDR
    === services of both families
    cluster.yaml:13:38: spec.network.podCIDR: has one network, and serviceCIDR has one of each address family
      hint: add a network after a comma, as in 10.96.0.0/12,fd00:10:96::/112, or write one network into serviceCIDR
    === services in another order
    cluster.yaml:13:85: spec.network.serviceCIDR: begins with IPv6, and podCIDR with IPv4
      hint: write the address families in the same order
    === services of another family
    cluster.yaml:13:68: spec.network.serviceCIDR: is a network of IPv6, and podCIDR is one of IPv4
      hint: write networks of the same address family
    === hosts of another family
    cluster.yaml:7:7: spec.hosts[0].internalAddress: is 10.0.0.11 of node1, and podCIDR begins with a network of IPv6
      hint: give the host an address of IPv6 first, or write networks of IPv4 first
    === a host of one family
    cluster.yaml:8:58: spec.hosts[1].internalAddress: is 10.0.0.12 of node2, and the cluster has networks of IPv4 and IPv6
      hint: add an address of IPv6 after a comma, as in 192.0.2.11,2001:db8::11
    === a host in another order
    cluster.yaml:9:58: spec.hosts[2].internalAddress: is fdab::13 of node3, and podCIDR begins with a network of IPv4
      hint: give the host an address of IPv4 first, or write networks of IPv6 first
    === hosts of both families
    cluster.yaml:7:58: spec.hosts[0].internalAddress: has fdab::11 of node1, and podCIDR has no network of IPv6
      hint: remove the address, or add a network to podCIDR and to serviceCIDR
    === two networks of one family
    cluster.yaml:13:38: spec.network.podCIDR: expected one network, or one of each address family
      hint: write a network as in 10.244.0.0/16, or two as in 10.244.0.0/16,fd00:10:244::/56
    === a blank
    cluster.yaml:13:38: spec.network.podCIDR: ' fd00:10:244::/56' is not a network
      hint: write a network as in 10.244.0.0/16, or two as in 10.244.0.0/16,fd00:10:244::/56
    === three addresses
    cluster.yaml:7:58: spec.hosts[0].internalAddress: expected one address, or one of each address family
      hint: write an address as in 192.0.2.11, or two as in 192.0.2.11,2001:db8::11
    === no address
    cluster.yaml:7:58: spec.hosts[0].internalAddress: invalid IP address syntax
      hint: write an address as in 192.0.2.11, or two as in 192.0.2.11,2001:db8::11
    === overlap of the second networks
    cluster.yaml:13:12: spec.network: podCIDR fd00:10:244::/56 and serviceCIDR fd00:10:244::/112 overlap
      hint: use two networks that do not overlap
    === a network with the second address of hosts
    cluster.yaml:13:12: spec.network: podCIDR fdab::/56 contains fdab::11 of host node1
      hint: use a network that contains no host
    cluster.yaml:13:12: spec.network: podCIDR fdab::/56 contains fdab::12 of host node2
      hint: use a network that contains no host
    cluster.yaml:13:12: spec.network: podCIDR fdab::/56 contains fdab::13 of host node3
      hint: use a network that contains no host
    === large services
    cluster.yaml:13:12: spec.network.serviceCIDR: fd00:10:96::/64 is too large: an API server accepts at most 2^20 addresses
      hint: use a prefix of at least 108 bits, as in fd00:10:96::/108
    === one node's network
    cluster.yaml:13:38: spec.network.podCIDR: fd00:10:244::/64 has room for 1 of 3 nodes, whose networks have a prefix of 64 bits
      hint: use a network with a shorter prefix, or set controllerManager.extraArgs.node-cidr-mask-size-ipv6
    === less than one node's network
    cluster.yaml:13:38: spec.network.podCIDR: 10.244.0.0/25 is smaller than the network of one node, which has a prefix of 24 bits
      hint: use a network with a shorter prefix, or set controllerManager.extraArgs.node-cidr-mask-size-ipv4
    === too many networks of nodes
    cluster.yaml:13:38: spec.network.podCIDR: fd00:20::/32 is too large: it has more than 2^16 networks of nodes with a prefix of 64 bits
      hint: use a prefix of at least 48 bits, or set controllerManager.extraArgs.node-cidr-mask-size-ipv6
    === a size for both families
    cluster.yaml:14:69: spec.kubernetes.controllerManager.extraArgs.node-cidr-mask-size: is not accepted by the controller manager of a cluster with two address families
      hint: use node-cidr-mask-size-ipv4 and node-cidr-mask-size-ipv6
    === a size of the user
    cluster.yaml:13:38: spec.network.podCIDR: fd00:10:244::/56 has room for 2 of 3 nodes, whose networks have a prefix of 57 bits
      hint: use a network with a shorter prefix, or set controllerManager.extraArgs.node-cidr-mask-size-ipv6
    === a plugin of one family
    cluster.yaml:13:21: spec.network.plugin: kubexm installs calico for IPv4 only
      hint: use one IPv4 network in podCIDR and in serviceCIDR, or a plugin that kubexm installs for both address families: flannel or bridge
    ");
}

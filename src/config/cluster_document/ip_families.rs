//! Checks that networks and addresses have the same address families, in the same order
//! (<https://kubernetes.io/docs/concepts/services-networking/dual-stack/>), and that each node gets a pod network.

use ipnet::IpNet;

use super::contradiction::refuse;
use super::own_flags::is_off;
use crate::cluster::{Cluster, HostSpec, IpFamily, NODE_PREFIX, OfFamily};
use crate::reader::Fields;

/// The longest difference between the prefixes of a pod network and of the networks of its nodes, in bits
/// (<https://pkg.go.dev/k8s.io/kubernetes/cmd/kubeadm/app/constants#PodSubnetNodeMaskMaxDiff>).
const NODE_BITS: u8 = 16;

const FLAGS: &str = "spec.kubernetes.controllerManager.extraArgs";

/// Reports every contradiction.
pub(super) fn check(spec: &Fields<'_>, cluster: &Cluster) {
    let network = &cluster.network;
    let (pods, services) = (network.pod_cidr, network.service_cidr);
    if pods.is_dual() != services.is_dual() {
        let (two, one) = if pods.is_dual() {
            ("podCIDR", "serviceCIDR")
        } else {
            ("serviceCIDR", "podCIDR")
        };
        let message = format!("has one network, and {two} has one of each address family");
        let hint = format!(
            "add a network after a comma, as in 10.96.0.0/12,fd00:10:96::/112, or write one network into {two}"
        );
        return refuse(spec, &format!("spec.network.{one}"), &message, &hint);
    }
    let family = pods.primary().family();
    if family != services.primary().family() {
        let (message, hint) = if pods.is_dual() {
            (
                format!("begins with {}, and podCIDR with {family}", family.other()),
                "write the address families in the same order",
            )
        } else {
            (
                format!(
                    "is a network of {}, and podCIDR is one of {family}",
                    family.other()
                ),
                "write networks of the same address family",
            )
        };
        return refuse(spec, "spec.network.serviceCIDR", &message, hint);
    }
    check_hosts(spec, cluster, family);
    check_node_networks(spec, cluster);
}

/// Checks the addresses of nodes. The first host with a contradiction is reported.
fn check_hosts(spec: &Fields<'_>, cluster: &Cluster, family: IpFamily) {
    let is_dual = cluster.network.pod_cidr.is_dual();
    let problem = |host: &HostSpec| {
        let own = host.internal_addresses;
        let (name, first) = (&host.name, own.primary());
        if first.family() != family {
            let other = family.other();
            return Some((
                format!("is {first} of {name}, and podCIDR begins with a network of {family}"),
                format!(
                    "give the host an address of {family} first, or write networks of {other} first"
                ),
            ));
        }
        match (is_dual, own.secondary()) {
            (true, None) => Some((
                format!("is {first} of {name}, and the cluster has networks of IPv4 and IPv6"),
                format!(
                    "add an address of {} after a comma, as in 192.0.2.11,2001:db8::11",
                    family.other()
                ),
            )),
            (false, Some(second)) => Some((
                format!(
                    "has {second} of {name}, and podCIDR has no network of {}",
                    second.family()
                ),
                "remove the address, or add a network to podCIDR and to serviceCIDR".to_owned(),
            )),
            _ => None,
        }
    };
    let nodes = cluster.hosts.iter().enumerate();
    let mut nodes = nodes.filter(|(_, host)| cluster.is_node(&host.name));
    if let Some((at, (message, hint))) = nodes.find_map(|(at, host)| Some((at, problem(host)?))) {
        let path = format!("spec.hosts[{at}].internalAddress");
        if spec.reader().has_problem_at(&path) {
            return;
        }
        // Without the field, the place is that of the host.
        let given = spec.at(&format!("hosts[{at}].internalAddress"));
        let node = given.or_else(|| spec.at(&format!("hosts[{at}]")));
        let node = node.unwrap_or(spec.node());
        spec.reader().problem(node, &path, message, Some(&hint));
    }
}

/// Checks that the pod networks have a network for each node, of the size that the controller manager assigns.
fn check_node_networks(spec: &Fields<'_>, cluster: &Cluster) {
    let flags = &cluster.kubernetes.controller_manager.extra_args;
    let is_dual = cluster.network.pod_cidr.is_dual();
    if is_dual && flags.contains_key("node-cidr-mask-size") {
        return refuse(
            spec,
            &format!("{FLAGS}.node-cidr-mask-size"),
            "is not accepted by the controller manager of a cluster with two address families",
            "use node-cidr-mask-size-ipv4 and node-cidr-mask-size-ipv6",
        );
    }
    if is_off(flags, "allocate-node-cidrs") {
        return;
    }
    let nodes = cluster.nodes().len();
    for net in cluster.network.pod_cidr.iter() {
        let Some(length) = node_prefix(cluster, net) else {
            continue;
        };
        let path = "spec.network.podCIDR";
        let Some(bits) = length.checked_sub(net.prefix_len()) else {
            let message = format!(
                "{net} is smaller than the network of one node, which has a prefix of {length} bits"
            );
            let hint = format!(
                "use a network with a shorter prefix, or set {}",
                flag_of(net)
            );
            refuse(spec, path, &message, &hint);
            continue;
        };
        if bits > NODE_BITS {
            let message = format!(
                "{net} is too large: it has more than 2^{NODE_BITS} networks of nodes with a prefix of {length} bits"
            );
            let shortest = length - NODE_BITS;
            let hint = format!(
                "use a prefix of at least {shortest} bits, or set {}",
                flag_of(net)
            );
            refuse(spec, path, &message, &hint);
        } else if 1_usize << bits < nodes {
            let message = format!(
                "{net} has room for {} of {nodes} nodes, whose networks have a prefix of {length} bits",
                1_usize << bits
            );
            let hint = format!(
                "use a network with a shorter prefix, or set {}",
                flag_of(net)
            );
            refuse(spec, path, &message, &hint);
        }
    }
}

/// Returns the flag that sets the size of the networks of nodes, as the path of a setting.
fn flag_of(net: IpNet) -> String {
    let name = net.family().to_string().to_lowercase();
    format!("controllerManager.extraArgs.node-cidr-mask-size-{name}")
}

/// Returns the prefix length of the networks that the controller manager gives to nodes; `None` if the value of the
/// user is not a length, which the controller manager reports.
fn node_prefix(cluster: &Cluster, net: IpNet) -> Option<u8> {
    let flags = &cluster.kubernetes.controller_manager.extra_args;
    let own = match net.family() {
        IpFamily::V4 => "node-cidr-mask-size-ipv4",
        IpFamily::V6 => "node-cidr-mask-size-ipv6",
    };
    match flags.get(own).or_else(|| flags.get("node-cidr-mask-size")) {
        Some(value) => value
            .parse()
            .ok()
            .filter(|length| *length <= net.family().bits()),
        None => Some(NODE_PREFIX.of(net.family())),
    }
}

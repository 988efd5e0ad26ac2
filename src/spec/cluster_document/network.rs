//! `spec.network`.

use ipnet::IpNet;

use crate::spec::cluster::{FlannelBackend, HostSpec, Network, NetworkPlugin};
use crate::spec::reader::{Fields, Reader};
use crate::spec::yaml::Node;

pub(super) fn read_network(spec: &Fields<'_>, hosts: &[HostSpec]) -> Option<Network> {
    let reader = spec.reader();
    let fields = spec.section("network");
    let mut plugin = NetworkPlugin::Flannel(FlannelBackend::Vxlan);
    if let Some(fields) = &fields {
        let later = ["calico", "cilium", "bridge", "kube-ovn"];
        if fields.choice("plugin", &["flannel", "none"], &later) == Some("none") {
            plugin = NetworkPlugin::None;
        }
        if let Some(flannel) = fields.section("flannel") {
            let backend = flannel.choice("backend", &["vxlan", "host-gw"], &["wireguard", "ipip"]);
            if backend == Some("host-gw") && plugin != NetworkPlugin::None {
                plugin = NetworkPlugin::Flannel(FlannelBackend::HostGw);
            }
            flannel.finish();
        }
    }
    let cidr = |name: &'static str, default: &str| -> Option<IpNet> {
        let node = fields.as_ref().and_then(|fields| fields.get(name));
        let Some(node) = node else {
            return default.parse().ok();
        };
        let path = format!("spec.network.{name}");
        let text = reader.text(node, &path)?;
        match text.parse::<IpNet>() {
            Ok(net) if net.trunc() == net => Some(net),
            Ok(net) => {
                let hint = format!("write {}", net.trunc());
                reader.problem(node, &path, "has bits beyond its prefix", Some(&hint));
                None
            }
            Err(_) => {
                let hint = "as in 10.244.0.0/16";
                reader.problem(node, &path, format!("'{text}' is no network"), Some(hint));
                None
            }
        }
    };
    let pods = cidr("podCIDR", "10.244.0.0/16");
    let services = cidr("serviceCIDR", "10.96.0.0/12");
    let at = fields.as_ref().map_or(spec.node(), Fields::node);
    if let (Some(pods), Some(services)) = (pods, services) {
        check_networks(reader, at, pods, services, hosts);
    }
    if let Some(fields) = fields {
        fields.finish();
    }
    let dns_address = services?.hosts().nth(9)?;
    Some(Network {
        plugin,
        pod_cidr: pods?.to_string(),
        service_cidr: services?.to_string(),
        dns_address,
    })
}

pub(super) fn check_networks(
    reader: &Reader,
    node: &Node,
    pods: IpNet,
    services: IpNet,
    hosts: &[HostSpec],
) {
    let overlap = |a: &IpNet, b: &IpNet| a.contains(&b.network()) || b.contains(&a.network());
    if overlap(&pods, &services) {
        let message = format!("podCIDR {pods} and serviceCIDR {services} overlap");
        reader.problem(
            node,
            "spec.network",
            message,
            Some("take two networks apart"),
        );
    }
    if services.hosts().nth(9).is_none() {
        reader.problem(
            node,
            "spec.network.serviceCIDR",
            "is too small for services",
            None,
        );
    }
    for host in hosts {
        for (name, net) in [("podCIDR", &pods), ("serviceCIDR", &services)] {
            if net.contains(&host.internal_address) {
                let message = format!(
                    "{name} {net} contains {} of host {}",
                    host.internal_address, host.name
                );
                reader.problem(
                    node,
                    "spec.network",
                    message,
                    Some("take a network that is free"),
                );
            }
        }
    }
}

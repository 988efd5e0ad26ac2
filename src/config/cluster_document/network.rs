//! `spec.network`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::cluster::{
    Calico, Cilium, CiliumRouting, Encapsulation, FlannelBackend, HostSpec, Network, NetworkPlugin,
};
use crate::reader::{Choice, Fields, Reader, accept};
use crate::yaml::Node;

pub(super) fn read_network(spec: &Fields<'_>, hosts: &[HostSpec]) -> Option<Network> {
    let reader = spec.reader();
    let fields = spec.section("network");
    let plugin = fields.as_ref().map_or(FLANNEL, read_plugin);
    let cidr = |name: &'static str, default: &str| -> Option<IpNet> {
        let given = fields.as_ref().filter(|fields| fields.get(name).is_some());
        let Some(fields) = given else {
            return default.parse().ok();
        };
        let text = fields.text(name)?;
        match text.parse::<IpNet>() {
            Ok(net) if net.trunc() == net => Some(net),
            Ok(net) => {
                let hint = format!("write {}", net.trunc());
                fields.problem(name, "has bits after its prefix", Some(&hint));
                None
            }
            Err(_) => {
                let hint = "write a network as in 10.244.0.0/16";
                fields.problem(name, format!("'{text}' is not a network"), Some(hint));
                None
            }
        }
    };
    if let Some(fields) = &fields {
        fields.refuse("kubePodsCIDR", "is unknown", "write podCIDR");
        fields.refuse("kubeServiceCIDR", "is unknown", "write serviceCIDR");
    }
    let pods = cidr("podCIDR", "10.244.0.0/16");
    let services = cidr("serviceCIDR", "10.96.0.0/12");
    let at = fields.as_ref().map_or(spec.node(), Fields::node);
    if let (Some(pods), Some(services)) = (pods, services) {
        check_networks(reader, at, pods, services, hosts);
    }
    if let Some(fields) = fields {
        if let Some(pods) = pods {
            check_family(&fields, plugin, pods);
        }
        fields.finish();
    }
    let dns_address = tenth(services?)?;
    Some(Network {
        plugin,
        pod_cidr: pods?,
        service_cidr: services?,
        dns_address,
    })
}

/// Returns the address that kubeadm gives to the DNS service: the tenth of the network
/// (<https://pkg.go.dev/k8s.io/kubernetes/cmd/kubeadm/app/constants#GetDNSIP>).
fn tenth(services: IpNet) -> Option<IpAddr> {
    let address = match services.network() {
        IpAddr::V4(first) => IpAddr::from(Ipv4Addr::from(u32::from(first).checked_add(10)?)),
        IpAddr::V6(first) => IpAddr::from(Ipv6Addr::from(u128::from(first).checked_add(10)?)),
    };
    services.contains(&address).then_some(address)
}

const FLANNEL: NetworkPlugin = NetworkPlugin::Flannel(FlannelBackend::Vxlan);

/// Reads the plugin with its settings. The section may contain settings of other plugins, too.
fn read_plugin(network: &Fields<'_>) -> NetworkPlugin {
    let plugins = Choice {
        later: &["kube-ovn"],
        ..accept(&["flannel", "calico", "cilium", "bridge", "none"])
    };
    let backend = network
        .section("flannel")
        .map_or(FlannelBackend::Vxlan, read_flannel);
    let calico = read_calico(network.section("calico"));
    let cilium = read_cilium(network.section("cilium"));
    match network.choice("plugin", plugins) {
        Some("cilium") => NetworkPlugin::Cilium(cilium),
        Some("calico") => NetworkPlugin::Calico(calico),
        Some("bridge") => NetworkPlugin::Bridge,
        Some("none") => NetworkPlugin::None,
        _ => NetworkPlugin::Flannel(backend),
    }
}

fn read_flannel(fields: Fields<'_>) -> FlannelBackend {
    let backends = Choice {
        later: &["wireguard", "ipip"],
        ..accept(&["vxlan", "host-gw"])
    };
    let backend = fields.choice("backend", backends);
    fields.finish();
    match backend {
        Some("host-gw") => FlannelBackend::HostGw,
        _ => FlannelBackend::Vxlan,
    }
}

fn read_calico(fields: Option<Fields<'_>>) -> Calico {
    let mut calico = Calico {
        encapsulation: Encapsulation::Vxlan,
        mtu: None,
    };
    if let Some(fields) = fields {
        calico.encapsulation =
            match fields.choice("encapsulation", accept(&["vxlan", "ipip", "none"])) {
                Some("ipip") => Encapsulation::Ipip,
                Some("none") => Encapsulation::None,
                _ => Encapsulation::Vxlan,
            };
        calico.mtu = read_mtu(&fields);
        fields.finish();
    }
    calico
}

fn read_cilium(fields: Option<Fields<'_>>) -> Cilium {
    let mut cilium = Cilium {
        routing: CiliumRouting::Vxlan,
        mtu: None,
    };
    if let Some(fields) = fields {
        let given = fields.one_of("routing", &CiliumRouting::ALL, CiliumRouting::name);
        cilium.routing = given.unwrap_or(CiliumRouting::Vxlan);
        cilium.mtu = read_mtu(&fields);
        fields.finish();
    }
    cilium
}

/// Reads an MTU, from the minimum of IPv6 to a jumbo frame.
fn read_mtu(fields: &Fields<'_>) -> Option<u16> {
    let mtu = fields.number("mtu", 1280, 9216)?;
    u16::try_from(mtu).ok()
}

/// Refuses IPv6 for plugins whose manifests kubexm adapts for IPv4 only.
fn check_family(fields: &Fields<'_>, plugin: NetworkPlugin, pods: IpNet) {
    let by_project = matches!(plugin, NetworkPlugin::Calico(_) | NetworkPlugin::Cilium(_));
    if let (true, IpNet::V6(_)) = (by_project, pods) {
        let hint = "use an IPv4 podCIDR, or another plugin";
        let message = format!("kubexm installs {} for IPv4 only", plugin.name());
        fields.problem("plugin", message, Some(hint));
    }
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
            Some("use two networks that do not overlap"),
        );
    }
    if tenth(services).is_none() {
        reader.problem(
            node,
            "spec.network.serviceCIDR",
            "is too small: the DNS service needs the tenth address",
            Some("use a network of at least 16 addresses, as in 10.96.0.0/12"),
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
                    Some("use a network that contains no host"),
                );
            }
        }
    }
}

//! `spec.network`.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::cluster::{
    Calico, Cilium, CiliumRouting, Cluster, Encapsulation, Etcd, FlannelBackend, HostSpec,
    IpFamilies, IpFamily, Network, NetworkPlugin, PluginKind, address_at, ranges,
};
use crate::reader::{Choice, Fields, Reader, accept};
use crate::urls;
use crate::yaml::Node;

use super::contradiction::refuse;

/// Maximum length of the part of an address that differs within a service network, in bits
/// (<https://pkg.go.dev/k8s.io/kubernetes/cmd/kubeadm/app/constants#MaximumBitsForServiceSubnet>).
const SERVICE_BITS: u8 = 20;

pub(super) fn read_network(spec: &Fields<'_>, hosts: &[HostSpec]) -> Option<Network> {
    let reader = spec.reader();
    let fields = spec.section("network");
    let plugin = fields.as_ref().map_or(FLANNEL, read_plugin);
    let networks = |name: &'static str, default: &str| -> Option<IpFamilies<IpNet>> {
        let given = fields.as_ref().filter(|fields| fields.get(name).is_some());
        match given {
            Some(fields) => read_networks(fields, name),
            None => default.parse::<IpNet>().ok().map(IpFamilies::from),
        }
    };
    let pods = networks("podCIDR", "10.244.0.0/16");
    let services = networks("serviceCIDR", "10.96.0.0/12");
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
    let dns_address = dns_address(services?.primary())?;
    Some(Network {
        plugin,
        pod_cidr: pods?,
        service_cidr: services?,
        dns_address,
    })
}

/// Reads one network, or one of each address family.
fn read_networks(fields: &Fields<'_>, name: &'static str) -> Option<IpFamilies<IpNet>> {
    const HINT: &str =
        "write a network as in 10.244.0.0/16, or two as in 10.244.0.0/16,fd00:10:244::/56";
    let mut networks: Vec<IpNet> = Vec::new();
    for text in fields.text(name)?.split(',') {
        match text.parse::<IpNet>() {
            Ok(net) if net.trunc() == net => networks.push(net),
            Ok(net) => {
                let hint = format!("write {}", net.trunc());
                fields.problem(name, "has bits after its prefix", Some(&hint));
                return None;
            }
            Err(_) => {
                fields.problem(name, format!("'{text}' is not a network"), Some(HINT));
                return None;
            }
        }
    }
    let families = IpFamilies::from_list(&networks);
    if families.is_none() {
        let message = "expected one network, or one of each address family";
        fields.problem(name, message, Some(HINT));
    }
    families
}

/// Returns the address that kubeadm gives to the DNS service: the tenth of the network
/// (<https://pkg.go.dev/k8s.io/kubernetes/cmd/kubeadm/app/constants#GetDNSIP>).
fn dns_address(services: IpNet) -> Option<IpAddr> {
    address_at(services, 10)
}

const FLANNEL: NetworkPlugin = NetworkPlugin::Flannel(FlannelBackend::Vxlan);

/// Reads the plugin with its settings. The section may contain settings of other plugins, too.
fn read_plugin(network: &Fields<'_>) -> NetworkPlugin {
    let plugins = Choice {
        later: &["kube-ovn"],
        ..accept(PluginKind::NAMES)
    };
    let backend = network
        .section("flannel")
        .map_or(FlannelBackend::Vxlan, read_flannel);
    let calico = read_calico(network.section("calico"));
    let cilium = read_cilium(network.section("cilium"));
    let kind = network.choice("plugin", plugins);
    match kind
        .and_then(PluginKind::named)
        .unwrap_or(PluginKind::Flannel)
    {
        PluginKind::Flannel => NetworkPlugin::Flannel(backend),
        PluginKind::Calico => NetworkPlugin::Calico(calico),
        PluginKind::Cilium => NetworkPlugin::Cilium(cilium),
        PluginKind::Bridge => NetworkPlugin::Bridge,
        PluginKind::None => NetworkPlugin::None,
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
fn check_family(fields: &Fields<'_>, plugin: NetworkPlugin, pods: IpFamilies<IpNet>) {
    if !plugin.properties().has_ipv6 && pods.has(IpFamily::V6) {
        let hint = if pods.is_dual() {
            "use one IPv4 network in podCIDR and in serviceCIDR, or a plugin that kubexm installs for both \
             address families: flannel or bridge"
        } else {
            "use an IPv4 podCIDR, or another plugin"
        };
        let message = format!("kubexm installs {} for IPv4 only", plugin.name());
        fields.problem("plugin", message, Some(hint));
    }
}

fn check_networks(
    reader: &Reader,
    node: &Node,
    pods: IpFamilies<IpNet>,
    services: IpFamilies<IpNet>,
    hosts: &[HostSpec],
) {
    let overlap = |a: &IpNet, b: &IpNet| a.contains(&b.network()) || b.contains(&a.network());
    for pods in pods.iter() {
        for services in services.iter().filter(|services| overlap(&pods, services)) {
            let message = format!("podCIDR {pods} and serviceCIDR {services} overlap");
            let hint = "use two networks that do not overlap";
            reader.problem(node, "spec.network", message, Some(hint));
        }
    }
    for net in services.iter() {
        check_services(reader, node, net);
    }
    for host in hosts {
        let mut own: Vec<IpAddr> = host.internal_addresses.iter().collect();
        let reached = host.address.parse().ok();
        own.extend(reached.filter(|reached| !own.contains(reached)));
        for (name, net) in ranges(pods, services) {
            if let Some(address) = own.iter().find(|address| net.contains(*address)) {
                let message = format!("{name} {net} contains {address} of host {}", host.name);
                let hint = "use a network that contains no host";
                reader.problem(node, "spec.network", message, Some(hint));
            }
        }
    }
}

/// Refuses addresses of the site in the networks of pods and services: hosts would send packets for them to pods, or nowhere.
pub(super) fn check_addresses(spec: &Fields<'_>, cluster: &Cluster) {
    let network = &cluster.network;
    for (path, address) in addresses(cluster) {
        for (name, net) in network.ranges() {
            if net.contains(&address) {
                let message = format!("has {address}, which is in network.{name} {net}");
                let hint = format!("use another {name}, which has no address of the site");
                refuse(spec, &path, &message, &hint);
            }
        }
    }
}

/// Returns the addresses outside of the cluster that the hosts or this machine ask, with their fields. Those of hosts are not among
/// them.
fn addresses(cluster: &Cluster) -> Vec<(String, IpAddr)> {
    let mut all: Vec<(String, IpAddr)> = Vec::new();
    let mut add = |path: &str, text: &str| {
        let address = text.parse::<IpAddr>().ok();
        all.extend(address.map(|address| (path.to_owned(), address)));
    };
    let endpoint = &cluster.control_plane_endpoint;
    let of_endpoint = endpoint.address.or_else(|| endpoint.host.parse().ok());
    if let Some(address) = of_endpoint.filter(|address| cluster.host_at(*address).is_none()) {
        add("spec.controlPlaneEndpoint", &address.to_string());
    }
    if let Some(registry) = &cluster.registry.external {
        let url = format!("https://{}", registry.address);
        urls::hosts(&url).for_each(|host| add("spec.registry.address", host));
    }
    if let Etcd::External { endpoints, .. } = &cluster.etcd {
        let hosts = endpoints.iter().flat_map(|endpoint| urls::hosts(endpoint));
        hosts.for_each(|host| add("spec.etcd.external.endpoints", host));
    }
    let system = &cluster.system;
    for server in system.resolvers.iter().flat_map(|own| &own.servers) {
        add("spec.system.resolvers.servers", &server.to_string());
    }
    for server in system.time.iter().flat_map(|time| &time.servers) {
        add("spec.system.time.servers", server.as_str());
    }
    let jumps = cluster.hosts.iter().flat_map(|host| &host.jump_hosts);
    for jump in jumps.flatten() {
        add("spec.hosts", &jump.address);
    }
    all.sort();
    all.dedup();
    all
}

/// Checks the size of a service network.
fn check_services(reader: &Reader, node: &Node, net: IpNet) {
    let path = "spec.network.serviceCIDR";
    if dns_address(net).is_none() {
        let message = "is too small: the DNS service needs the tenth address";
        let hint = "use a network of at least 16 addresses, as in 10.96.0.0/12";
        reader.problem(node, path, message, Some(hint));
    }
    let shortest = net.max_prefix_len() - SERVICE_BITS;
    if net.prefix_len() < shortest {
        let message =
            format!("{net} is too large: an API server accepts at most 2^{SERVICE_BITS} addresses");
        let hint = format!(
            "use a prefix of at least {shortest} bits, as in {}/{shortest}",
            net.network()
        );
        reader.problem(node, path, message, Some(&hint));
    }
}

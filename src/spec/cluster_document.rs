//! From `cluster.yaml` to a checked [`Cluster`].

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ipnet::IpNet;

use super::cluster::*;
use super::host_range;
use super::problem::Problems;
use super::reader::{Fields, Reader};
use super::yaml::{self, Node, Value};
use super::{HostName, HostPath, Version};

/// Reads and checks a cluster file.
///
/// # Errors
/// Everything that is wrong in it, at once.
pub fn load_cluster(path: &Path) -> Result<Cluster, Problems> {
    let file = path.display().to_string();
    let text = super::read_text(path)?;
    parse_cluster(&file, &text)
}

/// Reads and checks the text of a cluster file; `file` is its name in messages.
pub fn parse_cluster(file: &str, text: &str) -> Result<Cluster, Problems> {
    let root = yaml::parse(file, text)?;
    let reader = Reader::default();
    let cluster = read_document(&reader, &root);
    reader.finish(file, cluster)
}

/// The shape that a bundle is proved for where no cluster is given: the example's.
pub fn default_cluster(version: &Version) -> Result<Cluster, Problems> {
    let text = super::schema::TEMPLATE.replace("version: v1.36.3", &format!("version: v{version}"));
    parse_cluster("the default cluster", &text)
}

fn read_document(reader: &Reader, root: &Node) -> Option<Cluster> {
    let top = reader.fields(root, "");
    super::check_kind(&top, "Cluster");
    let metadata = top.section("metadata");
    let name = metadata.as_ref().and_then(|m| m.value::<HostName>("name"));
    if let Some(metadata) = metadata {
        metadata.required("name");
        metadata.finish();
    } else {
        top.required("metadata");
    }
    let spec_node = top.required("spec");
    top.finish();
    let spec = reader.fields(spec_node?, "spec");
    let cluster = read_spec(&spec, name.map(|name| name.to_string()));
    spec.finish();
    cluster
}

fn read_spec(spec: &Fields<'_>, name: Option<String>) -> Option<Cluster> {
    let hosts = read_hosts(spec);
    let roles = read_roles(spec, &hosts);
    let kubernetes = read_kubernetes(spec);
    let etcd = read_etcd(spec);
    let containerd_config = read_runtime(spec);
    refuse_load_balancer(spec);
    let endpoint = read_endpoint(spec, &hosts, &roles);
    let network = read_network(spec, &hosts);
    let dns = read_dns(spec);
    let registry = read_registry(spec);
    let system = read_system(spec);
    Some(Cluster {
        name: name?,
        hosts,
        roles,
        kubernetes: kubernetes?,
        etcd: etcd?,
        containerd_config,
        control_plane_endpoint: endpoint?,
        network: network?,
        dns,
        registry: registry?,
        system,
    })
}

fn read_hosts(spec: &Fields<'_>) -> Vec<HostSpec> {
    let reader = spec.reader();
    let defaults = spec.section("defaults");
    let Some(node) = spec.required("hosts") else {
        if let Some(defaults) = defaults {
            defaults.finish();
        }
        return Vec::new();
    };
    let mut hosts: Vec<HostSpec> = Vec::new();
    for (item, path) in reader.items(node, "spec.hosts") {
        let fields = reader.fields(item, &path);
        if let Some(host) = read_host(&fields, defaults.as_ref()) {
            if hosts.iter().any(|other| other.name == host.name) {
                reader.problem(
                    item,
                    &path,
                    format!("the name '{}' is used twice", host.name),
                    None,
                );
            }
            if hosts
                .iter()
                .any(|other| (&other.address, other.port) == (&host.address, host.port))
            {
                let message = format!("the address '{}' is used twice", host.address);
                reader.problem(item, &path, message, None);
            }
            hosts.push(host);
        }
        fields.finish();
    }
    if hosts.is_empty() && reader.is_clean() {
        reader.problem(node, "spec.hosts", "has no host", None);
    }
    if let Some(defaults) = defaults {
        defaults.finish();
    }
    hosts
}

fn read_host(host: &Fields<'_>, defaults: Option<&Fields<'_>>) -> Option<HostSpec> {
    let reader = host.reader();
    let text = |name| {
        host.text(name)
            .or_else(|| defaults.and_then(|d| d.text(name)))
    };
    let name = host
        .required("name")
        .and_then(|_| host.value::<HostName>("name"));
    let address = host.required("address").and_then(|_| host.text("address"));
    let internal = match host.value::<IpAddr>("internalAddress") {
        Some(address) => Some(address),
        None => match address.as_ref().map(|address| address.parse::<IpAddr>()) {
            Some(Err(_)) if host.get("internalAddress").is_none() => {
                let hint = "give internalAddress: the IP address that the cluster uses";
                let message = "a host whose address is a name needs an internal address";
                reader.problem(
                    host.node(),
                    &host.path("internalAddress"),
                    message,
                    Some(hint),
                );
                None
            }
            parsed => parsed.and_then(Result::ok),
        },
    };
    let port = host
        .number("port", 1, 65535)
        .or_else(|| defaults.and_then(|d| d.number("port", 1, 65535)));
    let user = text("user").unwrap_or_else(|| "root".to_owned());
    let password = text("password").map(Secret);
    let private_key_path = text("privateKeyPath").map(|path| expand_home(&path));
    let arch = host
        .value("arch")
        .or_else(|| defaults.and_then(|d| d.value("arch")));
    let mut labels = defaults.map(|d| d.text_map("labels")).unwrap_or_default();
    labels.extend(host.text_map("labels"));
    let taints = read_taints(host).or_else(|| defaults.and_then(read_taints));
    Some(HostSpec {
        name: name?,
        address: address?,
        internal_address: internal?,
        port: u16::try_from(port.unwrap_or(22)).ok()?,
        user,
        password,
        private_key_path,
        arch,
        labels,
        taints,
    })
}

fn read_taints(fields: &Fields<'_>) -> Option<Vec<Taint>> {
    let reader = fields.reader();
    let node = fields.get("taints")?;
    let mut taints = Vec::new();
    for (item, path) in reader.items(node, &fields.path("taints")) {
        let Some(text) = reader.text(item, &path) else {
            continue;
        };
        let (rest, effect) = text.rsplit_once(':').unwrap_or((&text, ""));
        let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
        if key.is_empty() || !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
            let hint = "for example dedicated=database:NoSchedule";
            reader.problem(item, &path, "wants key=value:effect", Some(hint));
            continue;
        }
        taints.push(Taint {
            key: key.into(),
            value: value.into(),
            effect: effect.into(),
        });
    }
    Some(taints)
}

fn expand_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => PathBuf::from(path),
    }
}

fn read_roles(spec: &Fields<'_>, hosts: &[HostSpec]) -> Roles {
    let reader = spec.reader();
    let Some(groups_node) = spec.required("roleGroups") else {
        return Roles::default();
    };
    let groups = reader.fields(groups_node, "spec.roleGroups");
    let names = |group: &'static str| -> Vec<HostName> {
        let Some(node) = groups.get(group) else {
            return Vec::new();
        };
        let mut names: Vec<HostName> = Vec::new();
        for (item, path) in reader.items(node, &groups.path(group)) {
            let Some(text) = reader.text(item, &path) else {
                continue;
            };
            match host_range::expand(&text) {
                Err(error) => reader.problem(item, &path, error, Some("as in node[1:9]")),
                Ok(expanded) => {
                    for name in expanded {
                        if !hosts.iter().any(|host| host.name == name) {
                            let message = format!("there is no host '{name}' in spec.hosts");
                            reader.problem(item, &path, message, None);
                        } else if !names.contains(&name) {
                            names.push(name);
                        }
                    }
                }
            }
        }
        names
    };
    let mut control_plane = names("control-plane");
    control_plane.extend(names("master"));
    let worker = names("worker");
    let etcd = names("etcd");
    let mut registry = names("registry");
    if !names("loadbalancer").is_empty() {
        let node = groups.get("loadbalancer").unwrap_or(groups_node);
        let hint = "use spec.controlPlaneEndpoint with a load balancer of your own";
        reader.problem(
            node,
            "spec.roleGroups.loadbalancer",
            "is not supported yet",
            Some(hint),
        );
    }
    if control_plane.is_empty() {
        reader.problem(
            groups_node,
            "spec.roleGroups.control-plane",
            "names no host",
            None,
        );
    }
    if !etcd.is_empty() && etcd != control_plane {
        let node = groups.get("etcd").unwrap_or(groups_node);
        let hint = "leave it out, or name exactly the control planes";
        let message = "etcd on hosts of its own is not supported yet";
        reader.problem(node, "spec.roleGroups.etcd", message, Some(hint));
    }
    if registry.len() > 1 {
        let node = groups.get("registry").unwrap_or(groups_node);
        let message = "several registry hosts are not supported yet";
        reader.problem(
            node,
            "spec.roleGroups.registry",
            message,
            Some("name one host"),
        );
    }
    if registry.is_empty() {
        registry.extend(control_plane.first().cloned());
    }
    groups.finish();
    Roles {
        control_plane,
        worker,
        registry,
    }
}

fn read_kubernetes(spec: &Fields<'_>) -> Option<Kubernetes> {
    let node = spec.required("kubernetes")?;
    let fields = spec.reader().fields(node, "spec.kubernetes");
    let version: Option<Version> = fields
        .required("version")
        .and_then(|_| fields.value("version"));
    fields.choice("type", &["kubeadm"], &["kubexm"]);
    let cluster_name = fields
        .text("clusterName")
        .unwrap_or_else(|| "kubernetes".to_owned());
    let dns_domain = fields
        .value::<HostName>("dnsDomain")
        .map(|name| name.to_string());
    let (api_server, cert_sans) = read_api_server(&fields);
    let controller_manager = read_component(&fields, "controllerManager");
    let scheduler = read_component(&fields, "scheduler");
    let kubelet = read_component(&fields, "kubelet");
    let (kube_proxy, proxy_mode) = read_kube_proxy(&fields);
    let ignore_preflight_errors = fields.section("kubeadm").map_or_else(Vec::new, |kubeadm| {
        let names = kubeadm.values("ignorePreflightErrors");
        kubeadm.finish();
        names
    });
    fields.finish();
    Some(Kubernetes {
        version: version?,
        cluster_name,
        dns_domain: dns_domain.unwrap_or_else(|| "cluster.local".to_owned()),
        api_server,
        controller_manager,
        scheduler,
        kubelet,
        kube_proxy,
        proxy_mode,
        cert_sans,
        ignore_preflight_errors,
    })
}

fn empty_component() -> Component {
    Component {
        extra_args: BTreeMap::new(),
        feature_gates: BTreeMap::new(),
        extra_config: serde_json::json!({}),
    }
}

fn component_fields(fields: &Fields<'_>) -> Component {
    let reader = fields.reader();
    let extra_args = fields.text_map("extraArgs");
    if let (Some(node), Some(name)) = (
        fields.get("extraArgs"),
        extra_args.keys().find(|name| name.starts_with('-')),
    ) {
        let message = format!("write '{}' without dashes", name.trim_start_matches('-'));
        reader.problem(node, &fields.path("extraArgs"), message, None);
    }
    let mut feature_gates = BTreeMap::new();
    if let Some(gates) = fields.section("featureGates") {
        for (name, node) in gates.entries() {
            match node.value {
                Value::Bool(on) => {
                    feature_gates.insert(name.to_owned(), on);
                }
                _ => reader.problem(node, &gates.path(name), "wants true or false", None),
            }
        }
    }
    Component {
        extra_args,
        feature_gates,
        extra_config: fields.json_object("extraConfig"),
    }
}

fn read_component(kubernetes: &Fields<'_>, name: &'static str) -> Component {
    kubernetes
        .section(name)
        .map_or_else(empty_component, |fields| {
            let component = component_fields(&fields);
            refuse_extra_config(&fields, name, &component);
            fields.finish();
            component
        })
}

/// Only the kubelet and kube-proxy have a configuration file to merge into.
fn refuse_extra_config(fields: &Fields<'_>, name: &str, component: &Component) {
    let empty = component
        .extra_config
        .as_object()
        .is_none_or(serde_json::Map::is_empty);
    if name == "kubelet" || empty {
        return;
    }
    if let Some(node) = fields.get("extraConfig") {
        let hint = "use extraArgs: this program is configured by flags";
        fields.reader().problem(
            node,
            &fields.path("extraConfig"),
            "is not taken here",
            Some(hint),
        );
    }
}

fn read_api_server(kubernetes: &Fields<'_>) -> (Component, Vec<String>) {
    kubernetes.section("apiServer").map_or_else(
        || (empty_component(), Vec::new()),
        |fields| {
            let component = component_fields(&fields);
            refuse_extra_config(&fields, "apiServer", &component);
            let sans = fields.values("certSANs");
            fields.finish();
            (component, sans)
        },
    )
}

fn read_kube_proxy(kubernetes: &Fields<'_>) -> (Component, String) {
    let default = "iptables".to_owned();
    kubernetes.section("kubeProxy").map_or_else(
        || (empty_component(), default.clone()),
        |fields| {
            let component = component_fields(&fields);
            let mode = fields.choice("mode", &["iptables", "nftables"], &["ipvs"]);
            fields.finish();
            (
                component,
                mode.map_or_else(|| default.clone(), str::to_owned),
            )
        },
    )
}

fn read_etcd(spec: &Fields<'_>) -> Option<Etcd> {
    let Some(fields) = spec.section("etcd") else {
        return Some(Etcd::Kubeadm {
            extra_args: BTreeMap::new(),
        });
    };
    let kind = match fields.get("type") {
        Some(_) => fields.choice("type", &["kubeadm", "external"], &["kubexm"]),
        None => Some("kubeadm"),
    };
    let extra_args = fields.text_map("extraArgs");
    let external = fields.section("external");
    let etcd = match (kind, external) {
        (Some("external"), Some(external)) => {
            let etcd = read_external_etcd(&external);
            external.finish();
            etcd
        }
        (Some("external"), None) => {
            let hint = "give endpoints, caFile, certFile and keyFile";
            let path = fields.path("external");
            fields
                .reader()
                .problem(fields.node(), &path, "is missing", Some(hint));
            None
        }
        (Some(_), _) => Some(Etcd::Kubeadm { extra_args }),
        (None, _) => None,
    };
    fields.finish();
    etcd
}

fn read_external_etcd(fields: &Fields<'_>) -> Option<Etcd> {
    let reader = fields.reader();
    let endpoints: Vec<String> = fields.values("endpoints");
    let node = fields.required("endpoints");
    if let (Some(node), true) = (node, endpoints.iter().any(|e| !e.starts_with("https://"))) {
        let path = fields.path("endpoints");
        reader.problem(
            node,
            &path,
            "wants https://host:port",
            Some("etcd must use TLS"),
        );
    }
    let file = |name: &'static str| -> Option<PathBuf> {
        let node = fields.required(name)?;
        let path = expand_home(&fields.text(name)?);
        if !path.is_file() {
            let message = format!("there is no file {}", path.display());
            reader.problem(node, &fields.path(name), message, None);
        }
        Some(path)
    };
    let (ca, cert, key) = (file("caFile"), file("certFile"), file("keyFile"));
    Some(Etcd::External {
        endpoints,
        ca_file: ca?,
        cert_file: cert?,
        key_file: key?,
    })
}

fn read_runtime(spec: &Fields<'_>) -> serde_json::Value {
    spec.section("containerRuntime").map_or_else(
        || serde_json::json!({}),
        |fields| {
            fields.choice("type", &["containerd"], &["docker", "cri-o", "isula"]);
            let config = fields.json_object("extraConfig");
            fields.finish();
            config
        },
    )
}

fn refuse_load_balancer(spec: &Fields<'_>) {
    if let Some(fields) = spec.section("highAvailability") {
        let later = ["kubexm-ah", "kubexm-an", "haproxy", "nginx", "kube-vip"];
        fields.choice("type", &["none", "external"], &later);
        fields.finish();
    }
}

fn read_endpoint(spec: &Fields<'_>, hosts: &[HostSpec], roles: &Roles) -> Option<Endpoint> {
    let reader = spec.reader();
    let first = roles
        .control_plane
        .first()
        .and_then(|name| hosts.iter().find(|h| h.name == *name));
    let Some(node) = spec.get("controlPlaneEndpoint") else {
        if roles.control_plane.len() > 1 {
            let hint = "give the address of your load balancer, as in api.example:6443";
            let message = "several control planes need one address for all of them";
            reader.problem(
                spec.node(),
                "spec.controlPlaneEndpoint",
                message,
                Some(hint),
            );
        }
        let address = first?.internal_address;
        return Some(Endpoint {
            host: address.to_string(),
            address: None,
            port: 6443,
        });
    };
    let path = "spec.controlPlaneEndpoint";
    if let Value::Text(text) = &node.value {
        let (host, port) = text.rsplit_once(':').unwrap_or((text, "6443"));
        return match port.parse::<u16>() {
            Ok(port) if !host.is_empty() => {
                let host = host.trim_matches(['[', ']']).to_owned();
                Some(Endpoint {
                    host,
                    address: None,
                    port,
                })
            }
            _ => {
                reader.problem(node, path, "wants host:port", None);
                None
            }
        };
    }
    let fields = reader.fields(node, path);
    let host = fields.text("domain").or_else(|| fields.text("host"));
    let address: Option<IpAddr> = fields.value("address");
    let port = fields.number("port", 1, 65535).unwrap_or(6443);
    fields.finish();
    let host = host.or_else(|| address.map(|address| address.to_string()));
    if host.is_none() {
        reader.problem(node, path, "wants a host or an address", None);
    }
    Some(Endpoint {
        host: host?,
        address,
        port: u16::try_from(port).ok()?,
    })
}

fn read_network(spec: &Fields<'_>, hosts: &[HostSpec]) -> Option<Network> {
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

fn check_networks(reader: &Reader, node: &Node, pods: IpNet, services: IpNet, hosts: &[HostSpec]) {
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

fn read_dns(spec: &Fields<'_>) -> Dns {
    let replicas = spec.section("dns").and_then(|fields| {
        let replicas = fields.number("replicas", 1, 100);
        if let Some(node) = fields.get("nodeLocal") {
            fields
                .reader()
                .problem(node, "spec.dns.nodeLocal", "is not supported yet", None);
        }
        fields.finish();
        replicas.and_then(|replicas| u32::try_from(replicas).ok())
    });
    Dns { replicas }
}

fn read_registry(spec: &Fields<'_>) -> Option<Registry> {
    let fields = spec.section("registry");
    let mut host_name = None;
    let mut port = None;
    let mut data_dir = None;
    if let Some(fields) = &fields {
        fields.choice("type", &["local"], &["harbor", "external"]);
        host_name = fields.value::<HostName>("hostName");
        port = fields.number("port", 1, 65535);
        data_dir = fields.value::<HostPath>("dataDir");
    }
    if let Some(fields) = fields {
        fields.finish();
    }
    Some(Registry {
        host_name: host_name.or_else(|| HostName::parse("registry.kubexm.internal").ok())?,
        port: u16::try_from(port.unwrap_or(5000)).ok()?,
        data_dir: data_dir.or_else(|| HostPath::parse("/var/lib/kubexm/registry").ok())?,
    })
}

fn read_system(spec: &Fields<'_>) -> System {
    let mut system = System {
        disable_swap: true,
        manage_hosts_file: true,
        install_packages: true,
        max_clock_skew_seconds: 5,
        sysctl: BTreeMap::new(),
    };
    if let Some(fields) = spec.section("system") {
        system.disable_swap = fields.flag("disableSwap", true);
        system.manage_hosts_file = fields.flag("manageHostsFile", true);
        system.install_packages = fields.flag("installPackages", true);
        if let Some(seconds) = fields.number("maxClockSkewSeconds", 1, 3600) {
            system.max_clock_skew_seconds = seconds.unsigned_abs();
        }
        system.sysctl = fields.text_map("sysctl");
        fields.finish();
    }
    system
}

//! Checks of the load balancer against the hosts, the endpoint and the ports of other programs.

use super::balancer_settings;
use super::contradiction::refuse;
use crate::cluster::{AddressHolder, Cluster, HostSpec, KubernetesKind, LoadBalancer};
use crate::ports;
use crate::reader::Fields;

/// Checks the load balancer, and the ports of the endpoint and of the API servers.
pub(super) fn check(spec: &Fields<'_>, cluster: &Cluster) {
    check_held_address(spec, cluster);
    check_port(spec, cluster);
    balancer_settings::check(spec, cluster);
    check_local(spec, cluster);
    let holds = matches!(cluster.high_availability.kind, LoadBalancer::Holder { .. });
    if !holds && !cluster.roles.load_balancer.is_empty() {
        refuse(
            spec,
            "spec.roleGroups.loadbalancer",
            "names hosts, and highAvailability.type does not use them",
            &format!(
                "set highAvailability.type: {}, or remove the role",
                address_holders()
            ),
        );
    }
    if cluster.high_availability.kind.has_proxy_pods() {
        check_static_pods(spec, cluster);
    }
}

/// Lists the types that use the role `loadbalancer`.
fn address_holders() -> String {
    AddressHolder::NAMES.join(" or ")
}

/// Checks an address that kubexm assigns to a host.
fn check_held_address(spec: &Fields<'_>, cluster: &Cluster) {
    if !cluster.high_availability.kind.holds_address() {
        return;
    }
    let path = "spec.controlPlaneEndpoint";
    let address = cluster.control_plane_endpoint.ip();
    let Some(address) = address.filter(|_| spec.get("controlPlaneEndpoint").is_some()) else {
        refuse(
            spec,
            path,
            "has no address for the load balancer",
            "give a free address of the hosts' network, as in {domain: api.example, address: 192.0.2.10}",
        );
        return;
    };
    if let Some(host) = cluster.host_at(address) {
        let message = format!("has the address of host {}", host.name);
        let hint = "give a free address: the load balancer assigns it to a host";
        refuse(spec, path, &message, hint);
    }
    let mut holders = holders(cluster);
    if let Some(host) = holders.find(|host| host.internal_address().is_ipv4() != address.is_ipv4())
    {
        let message = format!(
            "has the address {address}, which has another address family than {} of host {}",
            host.internal_address(),
            host.name
        );
        let hint = "give a free address of the network of the hosts' internal addresses";
        refuse(spec, path, &message, hint);
    }
}

/// Returns the hosts on which the load balancer runs.
fn holders(cluster: &Cluster) -> impl Iterator<Item = &HostSpec> {
    let names = balancer_settings::holders(cluster);
    names.iter().filter_map(|name| cluster.host(name))
}

/// Checks that no other program uses the port of the endpoint.
fn check_port(spec: &Fields<'_>, cluster: &Cluster) {
    let (path, port) = (
        "spec.controlPlaneEndpoint",
        cluster.control_plane_endpoint.port,
    );
    let api_server = cluster.kubernetes.api_server.port;
    let proxy_runs_on: Vec<&HostSpec> = match cluster.high_availability.kind {
        LoadBalancer::None | LoadBalancer::External => return,
        LoadBalancer::Pods { kind } => {
            if port != api_server {
                let name = kind.name();
                let message = format!("has port {port}, but {name} forwards no ports");
                let hint = format!("set port: {api_server}, on which the API servers listen");
                refuse(spec, path, &message, &hint);
            }
            return;
        }
        // Without the section, the address is missing, and the port is that of the API server.
        LoadBalancer::Holder { .. } if spec.at("controlPlaneEndpoint").is_none() => return,
        LoadBalancer::Holder { .. } => holders(cluster).collect(),
        LoadBalancer::Local { .. } => cluster.nodes(),
    };
    for host in proxy_runs_on {
        if let Some(holder) = program_at(port, cluster, host) {
            let message = format!(
                "has port {port}, which {holder} uses on {}, where the proxy runs",
                host.name
            );
            let hint = match cluster.high_availability.kind {
                LoadBalancer::Holder { .. } if port == api_server => &format!(
                    "set another port, as in port: {}, or name hosts in roleGroups.loadbalancer that are not control planes",
                    ports::HELD_ENDPOINT
                ),
                _ => &format!("set another port, as in port: {}", ports::LOCAL_ENDPOINT),
            };
            refuse(spec, path, &message, hint);
            return;
        }
    }
}

/// Checks that no other program of a control plane uses the port of the API server.
pub(super) fn check_api_server_port(spec: &Fields<'_>, cluster: &Cluster) {
    let port = cluster.kubernetes.api_server.port;
    let names = cluster.roles.control_plane.iter();
    for host in names.filter_map(|name| cluster.host(name)) {
        if let Some(program) = other_program_at(port, cluster, host) {
            let message = format!("is {port}, which {program} uses on {}", host.name);
            let path = "spec.kubernetes.apiServer.port";
            refuse(
                spec,
                path,
                &message,
                &format!("set another port, as in port: {}", ports::API_SERVER),
            );
            return;
        }
    }
}

/// Returns the program that uses a port of a host.
fn program_at(port: u16, cluster: &Cluster, host: &HostSpec) -> Option<&'static str> {
    if cluster.api_server_port(&host.name) == Some(port) {
        return Some("the API server");
    }
    other_program_at(port, cluster, host)
}

/// Returns the program other than the API server that uses a port of a host.
fn other_program_at(port: u16, cluster: &Cluster, host: &HostSpec) -> Option<&'static str> {
    let control_plane = cluster.is_control_plane(&host.name);
    match port {
        ports::SSH => Some("the SSH server"),
        ports::PROXY_HEALTH => Some("the health check of the proxy"),
        ports::KUBELET_HEALTH
        | ports::KUBE_PROXY_METRICS
        | ports::KUBELET
        | ports::KUBE_PROXY_HEALTH => Some("the kubelet or kube-proxy"),
        ports::CONTROLLER_MANAGER | ports::SCHEDULER if control_plane => {
            Some("the controller manager or the scheduler")
        }
        port if ports::ETCD_RESERVED.contains(&port) => Some("etcd"),
        port if port == cluster.registry.port && cluster.roles.registry.contains(&host.name) => {
            Some("the registry")
        }
        _ => None,
    }
}

/// Checks the endpoint of a proxy on every node.
fn check_local(spec: &Fields<'_>, cluster: &Cluster) {
    let endpoint = &cluster.control_plane_endpoint;
    let path = "spec.controlPlaneEndpoint";
    if !matches!(cluster.high_availability.kind, LoadBalancer::Local { .. }) {
        return;
    }
    if endpoint.ip().is_some_and(|address| !address.is_loopback()) {
        refuse(
            spec,
            path,
            "has an address, but the proxy of each node listens on loopback only",
            "remove the address, or the whole section",
        );
    }
    if endpoint.port < 1024 {
        refuse(
            spec,
            path,
            "has a port below 1024, on which only root may listen",
            &format!(
                "remove the port, or set one above 1023, as in port: {}",
                ports::LOCAL_ENDPOINT
            ),
        );
    }
    if endpoint.address.is_some() && !cluster.system.manage_hosts_file {
        refuse(
            spec,
            path,
            "has a name, which each host must resolve to itself, and system.manageHostsFile is false",
            "remove the section: 127.0.0.1 needs no name",
        );
    }
}

/// Refuses proxies as static pods where no kubelet of kubeadm runs them before the endpoint must answer.
fn check_static_pods(spec: &Fields<'_>, cluster: &Cluster) {
    let path = "spec.highAvailability";
    if cluster.kubernetes.kind == KubernetesKind::Systemd {
        refuse(
            spec,
            path,
            "runs the proxy as a static pod, and kubernetes.type is systemd",
            "set run: systemd",
        );
        return;
    }
    let holds = cluster.high_availability.kind.holds_address();
    let balancers = balancer_settings::holders(cluster);
    let first = cluster.roles.control_plane.first();
    let is_first_there = first.is_none_or(|name| balancers.contains(name));
    let mut others = balancers.iter().filter(|name| !cluster.is_node(name));
    if let Some(name) = others.next() {
        let message = format!("runs the proxy as a static pod, and {name} is not a node");
        let hint = "set run: systemd, or name only nodes in roleGroups.loadbalancer";
        refuse(spec, path, &message, hint);
    } else if !is_first_there {
        let hint = "set run: systemd, or name this host in roleGroups.loadbalancer";
        refuse(
            spec,
            path,
            "runs the proxy as a static pod, and the first control plane is not a load balancer: no other kubelet runs before the \
             endpoint must answer",
            hint,
        );
    }
    if holds && cluster.control_plane_endpoint.port < 1024 {
        let message = "has a port below 1024, on which only root may listen";
        refuse(
            spec,
            "spec.controlPlaneEndpoint",
            message,
            &format!(
                "set another port, as in port: {}, or set run: systemd",
                ports::HELD_ENDPOINT
            ),
        );
    }
}

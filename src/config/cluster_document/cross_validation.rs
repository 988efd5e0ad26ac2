//! Checks of settings in different sections that contradict each other.

use std::net::IpAddr;

use super::contradiction::{advise, refuse};
use super::{balancer_settings, ip_families, kubeadm, own_flags, runtime};
use crate::cluster::{
    AddressHolder, Cluster, Etcd, HostSpec, KubernetesKind, LoadBalancer, Patch, PatchTarget,
};
use crate::ports;
use crate::reader::Fields;
use kubexm_types::HostName;

/// Fills in default roles and reports every contradiction.
pub(super) fn check(spec: &Fields<'_>, cluster: &mut Cluster) {
    let control_planes = cluster.roles.control_plane.clone();
    if cluster.roles.registry.is_empty() && cluster.registry.external.is_none() {
        let first = control_planes.first().cloned();
        cluster.roles.registry.extend(first);
    }
    ip_families::check(spec, cluster);
    check_etcd(spec, cluster);
    check_api_server_port(spec, cluster);
    kubeadm::check(spec, cluster);
    own_flags::check(spec, cluster);
    runtime::check_cgroup_driver(spec, cluster);
    check_scheduler(spec, cluster);
    check_load_balancer(spec, cluster);
    check_registry(spec, cluster);
    check_kernel(spec, cluster);
    check_system(spec, cluster);
    check_names(spec, cluster);
    for (at, patch) in cluster.kubernetes.kubeadm.patches.iter().enumerate() {
        check_patch(spec, cluster, patch, at);
    }
    for role in [&mut cluster.roles.etcd, &mut cluster.roles.load_balancer] {
        if role.is_empty() {
            role.clone_from(&control_planes);
        }
    }
}

fn check_etcd(spec: &Fields<'_>, cluster: &Cluster) {
    let (path, etcd) = ("spec.roleGroups.etcd", &cluster.roles.etcd);
    match cluster.etcd {
        Etcd::Kubeadm { .. } if cluster.kubernetes.kind == KubernetesKind::Systemd => refuse(
            spec,
            "spec.etcd.type",
            "is kubeadm, and kubernetes.type is systemd: kubeadm does not run",
            "set etcd.type: systemd, or etcd.type: external",
        ),
        Etcd::Kubeadm { .. } if !etcd.is_empty() && *etcd != cluster.roles.control_plane => refuse(
            spec,
            path,
            "names other hosts than the control planes, on which kubeadm runs etcd",
            "set etcd.type: systemd, or remove the role",
        ),
        Etcd::External { .. } if !etcd.is_empty() => refuse(
            spec,
            path,
            "names hosts, and etcd.type is external",
            "remove the role, or set etcd.type: systemd",
        ),
        // A cluster has an even number after it has lost a member, and until another one joins.
        Etcd::Systemd { .. } if !etcd.is_empty() && etcd.len() % 2 == 0 => advise(
            spec,
            path,
            "names an even number of members, which tolerates no more failures than one member less",
            "name 1, 3 or 5 hosts",
        ),
        _ => {}
    }
}

fn check_system(spec: &Fields<'_>, cluster: &Cluster) {
    let time = cluster.system.time.as_ref();
    if let Some(source) = time.and_then(|time| time.source.as_ref())
        && cluster.host(source).is_none()
    {
        let message = format!("is {source}, which is not a host of the cluster");
        let hint =
            "name a host of spec.hosts, or write servers for time servers outside of the cluster";
        refuse(spec, "spec.system.time.source", &message, hint);
    }
}

/// Refuses hosts whose names mean other addresses in `/etc/hosts`.
fn check_names(spec: &Fields<'_>, cluster: &Cluster) {
    let registry = &cluster.registry.host_name;
    let serves = cluster.roles.registry.as_slice();
    for (at, host) in cluster.hosts.iter().enumerate() {
        let path = format!("spec.hosts[{at}].name");
        if cluster.registry.external.is_none()
            && host.name == *registry
            && serves != [host.name.clone()]
        {
            let message = format!("is {registry}, which is the name of the cluster's registry");
            let hint = "give the host another name, or set registry.hostName";
            refuse(spec, &path, &message, hint);
        }
        let endpoint = &cluster.control_plane_endpoint;
        let is_other = |address: IpAddr| !host.internal_addresses.iter().any(|own| own == address);
        if endpoint.host == host.name.as_str() && endpoint.address.is_some_and(is_other) {
            let message = "is the name of the endpoint, which has another address";
            let hint = "give the host another name, or change controlPlaneEndpoint.host";
            refuse(spec, &path, message, hint);
        }
    }
}

/// Refuses a configuration of the scheduler with kubeadm, which starts the scheduler without a configuration file.
fn check_scheduler(spec: &Fields<'_>, cluster: &Cluster) {
    let settings = &cluster.kubernetes.scheduler.extra_config;
    let is_empty = settings.as_object().is_none_or(serde_json::Map::is_empty);
    if cluster.kubernetes.kind == KubernetesKind::Kubeadm && !is_empty {
        refuse(
            spec,
            "spec.kubernetes.scheduler.extraConfig",
            "is only accepted with type: systemd",
            "write a KubeSchedulerConfiguration with system.files, mount it with scheduler.extraVolumes, and name it in \
             scheduler.extraArgs.config",
        );
    }
}

/// Refuses patches that kubeadm would ignore without a message.
fn check_patch(spec: &Fields<'_>, cluster: &Cluster, patch: &Patch, at: usize) {
    let path = format!("spec.kubernetes.kubeadm.patches[{at}]");
    let (name, version) = (patch.target.name(), &cluster.kubernetes.version);
    if cluster.kubernetes.kind == KubernetesKind::Systemd {
        let hint = "use extraArgs and extraConfig of the program instead";
        return refuse(
            spec,
            &path,
            "is a patch for kubeadm, and kubernetes.type is systemd",
            hint,
        );
    }
    if !patch.target.is_known_to(version) {
        let message = format!("kubeadm {version} does not patch {name}");
        let hint = "use Kubernetes 1.31 or newer, or the settings of spec.dns";
        return refuse(spec, &path, &message, hint);
    }
    let misplaced = |host: &&HostName| match patch.target {
        PatchTarget::Kubelet => !cluster.is_node(host),
        _ => !cluster.is_control_plane(host),
    };
    match patch.target {
        PatchTarget::Etcd if !matches!(cluster.etcd, Etcd::Kubeadm { .. }) => refuse(
            spec,
            &path,
            "is a patch for the etcd of kubeadm, and etcd.type is not kubeadm",
            "use etcd.extraArgs with type: systemd; kubexm does not configure an external etcd",
        ),
        PatchTarget::CoreDns if !patch.hosts.is_empty() => refuse(
            spec,
            &path,
            "names hosts, but CoreDNS is deployed once for the cluster",
            "remove hosts",
        ),
        _ => {
            if let Some(host) = patch.hosts.iter().find(misplaced) {
                let message = format!("names {host}, which does not run {name}");
                refuse(
                    spec,
                    &path,
                    &message,
                    "remove the host, or give it the role",
                );
            }
        }
    }
}

/// Refuses kernel settings with which the kubelet of the profile does not start.
fn check_kernel(spec: &Fields<'_>, cluster: &Cluster) {
    if let Some((key, required)) = cluster.security.contradiction(&cluster.system.sysctl) {
        let message = format!("the kubelet of security.profile cis needs {key} = {required}");
        let hint = "remove the setting, or the profile";
        refuse(spec, "spec.system.sysctl", &message, hint);
    }
}

fn check_registry(spec: &Fields<'_>, cluster: &Cluster) {
    if cluster.registry.external.is_some() && !cluster.roles.registry.is_empty() {
        refuse(
            spec,
            "spec.roleGroups.registry",
            "names hosts, and registry.type is external",
            "remove the role, or set registry.type: local",
        );
    }
}

fn check_load_balancer(spec: &Fields<'_>, cluster: &Cluster) {
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
    let mut hosts = cluster.hosts.iter();
    if let Some(host) = hosts.find(|host| host.internal_addresses.iter().any(|own| own == address))
    {
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
    let roles = &cluster.roles;
    let names = match cluster.high_availability.kind {
        LoadBalancer::Holder { .. } if !roles.load_balancer.is_empty() => &roles.load_balancer,
        _ => &roles.control_plane,
    };
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
fn check_api_server_port(spec: &Fields<'_>, cluster: &Cluster) {
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
    let balancers = &cluster.roles.load_balancer;
    let first = cluster.roles.control_plane.first();
    let is_first_there = balancers.is_empty() || first.is_none_or(|name| balancers.contains(name));
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
            "runs the proxy as a static pod, and the first control plane is no load balancer: no other kubelet runs before the \
             endpoint must answer",
            hint,
        );
    }
}

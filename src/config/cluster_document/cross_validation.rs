//! What goes with what: settings of different sections that contradict each other.

use crate::cluster::{
    AddressHolder, Cluster, Etcd, HostSpec, KubernetesKind, LoadBalancer, Patch, PatchTarget,
    ProxyRun,
};
use crate::reader::Fields;
use kubexm_types::HostName;

/// Fills in roles that follow from others, and tells every contradiction.
pub(super) fn check(spec: &Fields<'_>, cluster: &mut Cluster) {
    let control_planes = cluster.roles.control_plane.clone();
    if cluster.roles.registry.is_empty() && cluster.registry.external.is_none() {
        let first = control_planes.first().cloned();
        cluster.roles.registry.extend(first);
    }
    check_etcd(spec, cluster);
    check_load_balancer(spec, cluster);
    check_registry(spec, cluster);
    for (at, patch) in cluster.kubernetes.patches.iter().enumerate() {
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
        Etcd::Kubeadm { .. } if cluster.kubernetes.kind == KubernetesKind::Systemd => tell(
            spec,
            "spec.etcd.type",
            "is kubeadm, and kubernetes.type is systemd: there is no kubeadm to make that etcd",
            "set etcd.type: systemd, or external",
        ),
        Etcd::Kubeadm { .. } if !etcd.is_empty() && *etcd != cluster.roles.control_plane => tell(
            spec,
            path,
            "names other hosts than the control planes, where kubeadm runs etcd",
            "set etcd.type: systemd, or leave the role out",
        ),
        Etcd::External { .. } if !etcd.is_empty() => tell(
            spec,
            path,
            "names hosts, and etcd.type is external",
            "leave the role out, or set etcd.type: systemd",
        ),
        Etcd::Systemd { .. } if !etcd.is_empty() && etcd.len() % 2 == 0 => tell(
            spec,
            path,
            "names an even number of members: one more makes nothing safer, and the loss of half \
             stops the cluster",
            "name 1, 3 or 5 hosts",
        ),
        _ => {}
    }
}

/// kubeadm passes over a patch that it has no use for, so that nobody would know.
fn check_patch(spec: &Fields<'_>, cluster: &Cluster, patch: &Patch, at: usize) {
    let path = format!("spec.kubernetes.kubeadm.patches[{at}]");
    let (name, version) = (patch.target.name(), &cluster.kubernetes.version);
    if cluster.kubernetes.kind == KubernetesKind::Systemd {
        let hint = "use extraArgs and extraConfig of the program";
        return tell(
            spec,
            &path,
            "is for kubeadm, and kubernetes.type is systemd",
            hint,
        );
    }
    if !patch.target.is_known_to(version) {
        let message = format!("is for {name}, which kubeadm {version} does not patch");
        let hint = "take Kubernetes 1.31 or newer, or say what spec.dns can say";
        return tell(spec, &path, &message, hint);
    }
    let misplaced = |host: &&HostName| match patch.target {
        PatchTarget::Kubelet => !cluster.is_node(host),
        _ => !cluster.is_control_plane(host),
    };
    match patch.target {
        PatchTarget::Etcd if !matches!(cluster.etcd, Etcd::Kubeadm { .. }) => tell(
            spec,
            &path,
            "is for kubeadm's etcd, and etcd.type says that it runs none",
            "use etcd.extraArgs with type systemd; an external etcd is its owner's",
        ),
        PatchTarget::CoreDns if !patch.hosts.is_empty() => tell(
            spec,
            &path,
            "names hosts, and CoreDNS is deployed once for the cluster",
            "leave hosts out",
        ),
        _ => {
            if let Some(host) = patch.hosts.iter().find(misplaced) {
                let message = format!("names {host}, which will have no {name}");
                tell(
                    spec,
                    &path,
                    &message,
                    "leave it out, or give the host the role",
                );
            }
        }
    }
}

fn check_registry(spec: &Fields<'_>, cluster: &Cluster) {
    if cluster.registry.external.is_some() && !cluster.roles.registry.is_empty() {
        tell(
            spec,
            "spec.roleGroups.registry",
            "names hosts, and registry.type is external",
            "leave the role out, or set registry.type: local",
        );
    }
}

fn check_load_balancer(spec: &Fields<'_>, cluster: &Cluster) {
    check_held_address(spec, cluster);
    check_port(spec, cluster);
    check_local(spec, cluster);
    let holds = matches!(cluster.load_balancer, LoadBalancer::Holder { .. });
    if !holds && !cluster.roles.load_balancer.is_empty() {
        tell(
            spec,
            "spec.roleGroups.loadbalancer",
            "names hosts, and highAvailability.type has no use for them",
            &format!(
                "set highAvailability.type: {}, or leave the role out",
                holding()
            ),
        );
    }
    if cluster.kubernetes.kind == KubernetesKind::Systemd {
        check_static_pods(spec, cluster);
    }
}

/// The types that hold an address on hosts of a role of their own.
fn holding() -> String {
    AddressHolder::NAMES.join(" or ")
}

/// An address that a load balancer of kubexm's brings up.
fn check_held_address(spec: &Fields<'_>, cluster: &Cluster) {
    if !cluster.load_balancer.holds_address() {
        return;
    }
    let path = "spec.controlPlaneEndpoint";
    let address = cluster.control_plane_endpoint.ip();
    let Some(address) = address.filter(|_| spec.get("controlPlaneEndpoint").is_some()) else {
        tell(
            spec,
            path,
            "has no address that the load balancer could hold",
            "give a free address of the hosts' network, as in {domain: api.example, address: 192.0.2.10}",
        );
        return;
    };
    let mut hosts = cluster.hosts.iter();
    if let Some(host) = hosts.find(|host| host.internal_address == address) {
        let message = format!("has the address of host {}", host.name);
        let hint = "give one that no host has: the load balancer brings it up where it runs";
        tell(spec, path, &message, hint);
    }
    let mut holders = holders(cluster);
    if let Some(host) = holders.find(|host| host.internal_address.is_ipv4() != address.is_ipv4()) {
        let message = format!(
            "has the address {address}, of another family than {} of host {}",
            host.internal_address, host.name
        );
        let hint = "give a free address of the network that the hosts' internal addresses are in";
        tell(spec, path, &message, hint);
    }
}

/// The hosts that a load balancer of kubexm's runs on.
fn holders(cluster: &Cluster) -> impl Iterator<Item = &HostSpec> {
    let roles = &cluster.roles;
    let names = match cluster.load_balancer {
        LoadBalancer::Holder { .. } if !roles.load_balancer.is_empty() => &roles.load_balancer,
        _ => &roles.control_plane,
    };
    names.iter().filter_map(|name| cluster.host(name))
}

/// The endpoint's port on hosts that have programs of their own on some.
fn check_port(spec: &Fields<'_>, cluster: &Cluster) {
    let (path, port) = (
        "spec.controlPlaneEndpoint",
        cluster.control_plane_endpoint.port,
    );
    let proxy_runs_on: Vec<&HostSpec> = match cluster.load_balancer {
        LoadBalancer::None | LoadBalancer::External => return,
        LoadBalancer::Pods { kind } => {
            if port != API_SERVER {
                let name = kind.name();
                let message = format!("has port {port}, and {name} only moves the address");
                let hint = "set port: 6443, where the API servers themselves listen";
                tell(spec, path, &message, hint);
            }
            return;
        }
        LoadBalancer::Holder { .. } => holders(cluster).collect(),
        LoadBalancer::Local { .. } => cluster.nodes(),
    };
    for host in proxy_runs_on {
        if let Some(holder) = holder_of(port, cluster, host) {
            let message = format!(
                "has port {port}, which {holder} has on {}, where the proxy runs, too",
                host.name
            );
            let hint = match cluster.load_balancer {
                LoadBalancer::Holder { .. } if port == API_SERVER => {
                    "set another port, as in port: 8443, or roleGroups.loadbalancer to hosts that \
                     are no control planes"
                }
                _ => "set another port, as in port: 7443",
            };
            tell(spec, path, &message, hint);
            return;
        }
    }
}

const API_SERVER: u16 = 6443;

/// Who has a port of a host already.
fn holder_of(port: u16, cluster: &Cluster, host: &HostSpec) -> Option<&'static str> {
    let control_plane = cluster.is_control_plane(&host.name);
    match port {
        22 => Some("its SSH server"),
        7444 => Some("the proxy's own health check"),
        10248..=10250 | 10256 => Some("the kubelet or kube-proxy"),
        API_SERVER if control_plane => Some("the API server"),
        10257 | 10259 if control_plane => Some("the controller manager or the scheduler"),
        2379..=2382 => Some("etcd"),
        port if port == cluster.registry.port && cluster.roles.registry.contains(&host.name) => {
            Some("the registry")
        }
        _ => None,
    }
}

/// A proxy on every node, for that node alone.
fn check_local(spec: &Fields<'_>, cluster: &Cluster) {
    let endpoint = &cluster.control_plane_endpoint;
    let path = "spec.controlPlaneEndpoint";
    if !matches!(cluster.load_balancer, LoadBalancer::Local { .. }) {
        return;
    }
    if endpoint.ip().is_some_and(|address| !address.is_loopback()) {
        tell(
            spec,
            path,
            "has an address, and every node has a proxy of its own, which listens on loopback only",
            "leave the address out, or the whole section",
        );
    }
    if endpoint.port < 1024 {
        tell(
            spec,
            path,
            "has a port below 1024, which only root may open",
            "leave it out, or set one from 1024 on, as in port: 7443",
        );
    }
    if endpoint.address.is_some() && !cluster.system.manage_hosts_file {
        tell(
            spec,
            path,
            "has a name, which must lead every host to itself, and system.manageHostsFile is false",
            "leave the section out: 127.0.0.1 needs no name",
        );
    }
}

/// Static pods need kubeadm's files, and a kubelet that looks for them.
fn check_static_pods(spec: &Fields<'_>, cluster: &Cluster) {
    let path = "spec.highAvailability";
    match cluster.load_balancer {
        LoadBalancer::Local {
            run: ProxyRun::StaticPod,
            ..
        } => tell(
            spec,
            path,
            "runs the proxy as a static pod, and kubernetes.type is systemd",
            "let systemd run it, as it runs all else then",
        ),
        LoadBalancer::Pods { kind } => {
            let message = format!(
                "is {}, a static pod with kubeadm's kubeconfigs, and kubernetes.type is systemd",
                kind.name()
            );
            let hint = format!("set type: {}, which hold an address, too", holding());
            tell(spec, path, &message, &hint);
        }
        _ => {}
    }
}

fn tell(spec: &Fields<'_>, path: &str, message: &str, hint: &str) {
    let node = path
        .strip_prefix("spec.")
        .and_then(|path| spec.at(path))
        .unwrap_or(spec.node());
    spec.reader().problem(node, path, message, Some(hint));
}

//! What goes with what: settings of different sections that contradict each other.

use crate::spec::cluster::{Cluster, Etcd, KubernetesKind, LoadBalancer, ProxyRun};
use crate::spec::reader::Fields;

/// Fills in roles that follow from others, and tells every contradiction.
pub(super) fn check(spec: &Fields<'_>, cluster: &mut Cluster) {
    check_etcd(spec, cluster);
    check_load_balancer(spec, cluster);
    check_registry(spec, cluster);
    let control_planes = cluster.roles.control_plane.clone();
    if cluster.roles.registry.is_empty() && cluster.registry.external.is_none() {
        let first = control_planes.first().cloned();
        cluster.roles.registry.extend(first);
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
        Etcd::Kubeadm { .. } if cluster.kubernetes.kind == KubernetesKind::Binaries => tell(
            spec,
            "spec.etcd.type",
            "is kubeadm, and kubernetes.type is kubexm: there is no kubeadm to make that etcd",
            "set etcd.type: kubexm, or external",
        ),
        Etcd::Kubeadm { .. } if !etcd.is_empty() && *etcd != cluster.roles.control_plane => tell(
            spec,
            path,
            "names other hosts than the control planes, where kubeadm runs etcd",
            "set etcd.type: kubexm, or leave the role out",
        ),
        Etcd::External { .. } if !etcd.is_empty() => tell(
            spec,
            path,
            "names hosts, and etcd.type is external",
            "leave the role out, or set etcd.type: kubexm",
        ),
        Etcd::Kubexm { .. } if !etcd.is_empty() && etcd.len() % 2 == 0 => tell(
            spec,
            path,
            "names an even number of members: one more makes nothing safer, and the loss of half \
             stops the cluster",
            "name 1, 3 or 5 hosts",
        ),
        _ => {}
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
    let endpoint = &cluster.control_plane_endpoint;
    let has_address =
        endpoint.address.is_some() || endpoint.host.parse::<std::net::IpAddr>().is_ok();
    let given = spec.get("controlPlaneEndpoint").is_some();
    let holds_address = matches!(
        cluster.load_balancer,
        LoadBalancer::Keepalived { .. } | LoadBalancer::KubeVip
    );
    if holds_address && !(given && has_address) {
        tell(
            spec,
            "spec.controlPlaneEndpoint",
            "has no address that the load balancer could hold",
            "give a free address of the hosts' network, as in {domain: api.example, address: 192.0.2.10}",
        );
    }
    let own = endpoint.address.or_else(|| endpoint.host.parse().ok());
    let taken = cluster
        .hosts
        .iter()
        .find(|host| Some(host.internal_address) == own);
    if let (true, Some(host)) = (holds_address && given, taken) {
        let message = format!("has the address of host {}", host.name);
        let hint = "give one that no host has: the load balancer brings it up where it runs";
        tell(spec, "spec.controlPlaneEndpoint", &message, hint);
    }
    let keepalived = matches!(cluster.load_balancer, LoadBalancer::Keepalived { .. });
    if !keepalived && !cluster.roles.load_balancer.is_empty() {
        tell(
            spec,
            "spec.roleGroups.loadbalancer",
            "names hosts, and highAvailability.type has no use for them",
            "set highAvailability.type: kubexm-ah or kubexm-an, or leave the role out",
        );
    }
    let pod = matches!(
        cluster.load_balancer,
        LoadBalancer::Local {
            run: ProxyRun::StaticPod,
            ..
        }
    );
    if pod && cluster.kubernetes.kind == KubernetesKind::Binaries {
        tell(
            spec,
            "spec.highAvailability",
            "runs the proxy as a static pod, and kubernetes.type is kubexm",
            "let systemd run it, as it runs all else then",
        );
    }
}

fn tell(spec: &Fields<'_>, path: &str, message: &str, hint: &str) {
    let node = path
        .strip_prefix("spec.")
        .and_then(|path| spec.at(path))
        .unwrap_or(spec.node());
    spec.reader().problem(node, path, message, Some(hint));
}

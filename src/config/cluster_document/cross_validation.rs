//! Checks of settings in different sections that contradict each other.

use std::net::IpAddr;

use super::contradiction::{advise, refuse};
use super::{balancer_checks, ip_families, kubeadm, network, own_flags, runtime};
use crate::cluster::{Cluster, Etcd, KubernetesKind, Patch, PatchTarget};
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
    balancer_checks::check_api_server_port(spec, cluster);
    kubeadm::check(spec, cluster);
    own_flags::check(spec, cluster);
    runtime::check_cgroup_driver(spec, cluster);
    check_scheduler(spec, cluster);
    balancer_checks::check(spec, cluster);
    check_registry(spec, cluster);
    check_kernel(spec, cluster);
    check_system(spec, cluster);
    network::check_addresses(spec, cluster);
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
        let is_other = |address: IpAddr| !host.has_address(address);
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

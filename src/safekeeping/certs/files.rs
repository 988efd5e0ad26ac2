//! What the certificates in known files are for, and which CA signs them.

use std::collections::BTreeMap;

use kubexm_config::Cluster;
use kubexm_config::cluster::{Etcd, KubernetesKind};
use kubexm_config::load_balancer;
use kubexm_host::Facts;
use kubexm_host::facts::Setting;
use kubexm_pki::Certificate;
use kubexm_types::HostName;

/// The directory of kubeadm's certificates, which clusters without kubeadm have as well.
pub(super) const PKI: &str = "/etc/kubernetes/pki";
/// kubexm's directory of files on hosts.
const ETC: &str = "/etc/kubexm";
/// The kubeconfig of the kubelet of kubeadm. It contains a certificate until the kubelet has requested its own one.
pub(super) const KUBELET_KUBECONFIG: &str = "/etc/kubernetes/kubelet.conf";
/// The directory of the kubelet's own certificates.
pub(super) const KUBELET: &str = "/var/lib/kubelet/pki";
/// The certificate with which the kubelet identifies itself.
pub(super) const KUBELET_CLIENT: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";

/// The kubeconfig of the group `system:masters`, which the first control plane of kubeadm has.
const SUPER_ADMIN: &str = "/etc/kubernetes/super-admin.conf";
/// The certificate of a registry that kubexm runs.
pub(super) const REGISTRY: &str = "/etc/kubexm/registry/tls.crt";
/// The certificate of an API server at an etcd that is not kubeadm's.
pub(super) const ETCD_CLIENT: &str = "/etc/kubexm/etcd/client.crt";
/// Files that every control plane has.
const OF_CONTROL_PLANES: [&str; 7] = [
    "/etc/kubernetes/admin.conf",
    "/etc/kubernetes/controller-manager.conf",
    "/etc/kubernetes/scheduler.conf",
    "/etc/kubernetes/pki/apiserver.crt",
    "/etc/kubernetes/pki/apiserver-kubelet-client.crt",
    "/etc/kubernetes/pki/front-proxy-ca.crt",
    "/etc/kubernetes/pki/front-proxy-client.crt",
];
/// Files of a control plane with a member of kubeadm's etcd.
const OF_STACKED_ETCD: [&str; 5] = [
    "/etc/kubernetes/pki/apiserver-etcd-client.crt",
    "/etc/kubernetes/pki/etcd/ca.crt",
    "/etc/kubernetes/pki/etcd/healthcheck-client.crt",
    "/etc/kubernetes/pki/etcd/peer.crt",
    "/etc/kubernetes/pki/etcd/server.crt",
];
/// Files of a control plane whose API server is a client of another etcd.
const OF_ETCD_CLIENTS: [&str; 2] = ["/etc/kubexm/etcd/ca.crt", ETCD_CLIENT];
/// Files of a member of kubexm's etcd.
const OF_ETCD_MEMBERS: [&str; 3] = [
    "/etc/kubexm/etcd-member/admin.crt",
    "/etc/kubexm/etcd-member/ca.crt",
    "/etc/kubexm/etcd-member/member.crt",
];

/// Files on hosts with what they are for. The path of a directory ends with `/`, and stands for all of its files.
const PURPOSES: &[(&str, &str)] = &[
    ("/etc/kubernetes/admin.conf", "kubeconfig of administrators"),
    (SUPER_ADMIN, "kubeconfig of the group system:masters"),
    (
        "/etc/kubernetes/controller-manager.conf",
        "kubeconfig of the controller manager",
    ),
    (
        "/etc/kubernetes/scheduler.conf",
        "kubeconfig of the scheduler",
    ),
    (KUBELET_KUBECONFIG, "first kubeconfig of the kubelet"),
    (
        "/etc/kubernetes/kube-proxy.conf",
        "kubeconfig of kube-proxy",
    ),
    ("/etc/kubernetes/pki/ca.crt", "CA of Kubernetes"),
    (
        "/etc/kubernetes/pki/front-proxy-ca.crt",
        "CA of the front proxy",
    ),
    ("/etc/kubernetes/pki/etcd/ca.crt", "CA of etcd"),
    (
        "/etc/kubernetes/pki/apiserver.crt",
        "server of the API server",
    ),
    (
        "/etc/kubernetes/pki/apiserver-kubelet-client.crt",
        "API server at kubelets",
    ),
    (
        "/etc/kubernetes/pki/apiserver-etcd-client.crt",
        "API server at etcd",
    ),
    (
        "/etc/kubernetes/pki/front-proxy-client.crt",
        "API server at aggregated API servers",
    ),
    ("/etc/kubernetes/pki/etcd/server.crt", "server of etcd"),
    ("/etc/kubernetes/pki/etcd/peer.crt", "etcd at other members"),
    (
        "/etc/kubernetes/pki/etcd/healthcheck-client.crt",
        "health check of etcd",
    ),
    ("/etc/kubexm/etcd/ca.crt", "CA of etcd"),
    (ETCD_CLIENT, "API server at etcd"),
    ("/etc/kubexm/etcd-member/ca.crt", "CA of etcd"),
    (
        "/etc/kubexm/etcd-member/member.crt",
        "server of etcd, and etcd at other members",
    ),
    ("/etc/kubexm/etcd-member/admin.crt", "etcdctl at etcd"),
    ("/etc/kubexm/registry-ca.crt", "CA of the registry"),
    (REGISTRY, "server of the registry"),
    ("/etc/kubexm/registries/", "CA of a registry of the site"),
    (KUBELET_CLIENT, "kubelet at the API server"),
    (
        "/var/lib/kubelet/pki/kubelet-server-current.pem",
        "server of the kubelet",
    ),
    (
        "/var/lib/kubelet/pki/kubelet.crt",
        "server of the kubelet, which no CA signed",
    ),
];

/// Returns what a file on a host is for.
pub(super) fn purpose(path: &str) -> &'static str {
    known(path).unwrap_or("other certificate")
}

fn known(path: &str) -> Option<&'static str> {
    let mut of_balancers = load_balancer::all_properties().filter_map(|own| own.ca_directory);
    if of_balancers.any(|directory| path.starts_with(directory)) {
        return Some("CA that the load balancer trusts");
    }
    let mut purposes = PURPOSES.iter();
    let found = purposes.find(|(known, _)| {
        if known.ends_with('/') {
            path.starts_with(known)
        } else {
            path == *known
        }
    });
    found.map(|(_, purpose)| *purpose)
}

/// Returns the files that a host must have: what the cluster file makes it, and what is installed there. Files that some
/// installs do not have, or have only for a time, are not among them.
pub(super) fn expected(cluster: &Cluster, host: &HostName, facts: &Facts) -> Vec<&'static str> {
    let has = |setting, value: &str| facts.applied(setting).any(|found| found == value);
    let mut files = Vec::new();
    // The name is known after the join; without kubeadm, after the unit of the kubelet is written, which these files precede.
    let is_node = facts.is_node() && facts.applied(Setting::NodeName).next().is_some();
    if cluster.is_node(host) && is_node {
        files.extend(of_node(cluster, facts));
    }
    let is_control_plane = cluster.is_control_plane(host) && has(Setting::ControlPlane, "yes");
    if is_control_plane && is_node {
        files.extend(OF_CONTROL_PLANES);
        match &cluster.etcd {
            Etcd::Kubeadm { .. } if has(Setting::Etcd, "kubeadm") => files.extend(OF_STACKED_ETCD),
            Etcd::Kubeadm { .. } => {}
            Etcd::Systemd { .. } | Etcd::External { .. } => files.extend(OF_ETCD_CLIENTS),
        }
    }
    let is_member =
        matches!(cluster.etcd, Etcd::Systemd { .. }) && cluster.roles.etcd.contains(host);
    if is_member && facts.etcd_formed && has(Setting::Etcd, "systemd") {
        files.extend(OF_ETCD_MEMBERS);
    }
    let serves = cluster.registry.external.is_none() && cluster.roles.registry.contains(host);
    // The setting is that of a file that an install writes after the certificate.
    if serves && facts.has_registry() {
        files.push(REGISTRY);
    }
    files
}

/// Returns the files that every node must have.
fn of_node(cluster: &Cluster, facts: &Facts) -> Vec<&'static str> {
    let mut files = vec!["/etc/kubernetes/pki/ca.crt"];
    let has_first = facts.certificates.contains_key(KUBELET_KUBECONFIG);
    match cluster.kubernetes.kind {
        KubernetesKind::Systemd => files.push(KUBELET_KUBECONFIG),
        // A kubelet whose kubeconfig has a certificate can use that one.
        KubernetesKind::Kubeadm if has_first => {}
        KubernetesKind::Kubeadm => {
            let flags = &cluster.kubernetes.kubelet.extra_args;
            let elsewhere = ["cert-dir", "kubeconfig"];
            if !elsewhere.iter().any(|flag| flags.contains_key(*flag)) {
                files.push(KUBELET_CLIENT);
            }
        }
    }
    files
}

/// Returns whether kubeadm or kubexm issues the certificate in a file. Beside theirs, a site can have files of its own, such as
/// the one of `--tls-sni-cert-file`.
pub(super) fn is_issued(cluster: &Cluster, path: &str) -> bool {
    known(path).is_some() && ca_of(cluster, path).is_some()
}

/// Returns whether a renewal writes a file on this host. Another host can have a copy of it, such as the administrator's
/// kubeconfig on a worker.
pub(super) fn is_renewed_on(cluster: &Cluster, host: &HostName, path: &str) -> bool {
    let has_role = if is_of_control_planes(path) {
        cluster.is_control_plane(host)
    } else if OF_ETCD_MEMBERS.contains(&path) {
        cluster.roles.etcd.contains(host)
    } else if path == REGISTRY {
        cluster.roles.registry.contains(host)
    } else {
        cluster.is_node(host)
    };
    has_role && is_issued(cluster, path)
}

fn is_of_control_planes(path: &str) -> bool {
    let files = OF_CONTROL_PLANES.iter().chain(&OF_STACKED_ETCD);
    let mut files = files.chain(&OF_ETCD_CLIENTS).chain(&[SUPER_ADMIN]);
    files.any(|file| *file == path)
}

/// Returns the files of a host that are missing or unreadable, with one of these words, and that a renewal writes: no CAs, and
/// none that the kubelet renews.
pub(super) fn lost<'a>(
    cluster: &Cluster,
    host: &HostName,
    facts: &'a Facts,
) -> BTreeMap<&'a str, &'static str> {
    let expected = expected(cluster, host, facts).into_iter();
    let missing = expected
        .filter(|path| !facts.certificates.contains_key(*path))
        .map(|path| (path, "missing"));
    let unreadable = facts
        .certificates
        .iter()
        .filter(|(path, text)| Certificate::parse_all(path, text).is_err())
        .map(|(path, _)| (path.as_str(), "unreadable"));
    let is_written = |path: &str| {
        let is_ca = path.ends_with("ca.crt");
        is_renewed_on(cluster, host, path) && !is_ca && !path.starts_with(KUBELET)
    };
    let all = missing.chain(unreadable);
    all.filter(|(path, _)| is_written(path)).collect()
}

/// Returns the path of the CA that signs the certificate in a file, on the same host; `None` if kubexm does not know it.
pub(super) fn ca_of(cluster: &Cluster, path: &str) -> Option<&'static str> {
    let below = |folder: &str| {
        path.strip_prefix(folder)
            .map(|rest| rest.trim_start_matches('/'))
    };
    if let Some(name) = below(PKI) {
        return Some(match name {
            "front-proxy-client.crt" => "/etc/kubernetes/pki/front-proxy-ca.crt",
            "apiserver-etcd-client.crt" => "/etc/kubernetes/pki/etcd/ca.crt",
            name if name.starts_with("etcd/") => "/etc/kubernetes/pki/etcd/ca.crt",
            _ => "/etc/kubernetes/pki/ca.crt",
        });
    }
    if let Some(name) = below(ETC) {
        return match name {
            // The client certificate of an etcd of the site may have another CA than its servers.
            "etcd/client.crt" if matches!(cluster.etcd, Etcd::External { .. }) => None,
            "etcd/client.crt" => Some("/etc/kubexm/etcd/ca.crt"),
            "registry/tls.crt" => Some("/etc/kubexm/registry-ca.crt"),
            name if name.starts_with("etcd-member/") => Some("/etc/kubexm/etcd-member/ca.crt"),
            _ => None,
        };
    }
    let is_own = path.ends_with("/kubelet.crt");
    let is_signed = path.starts_with(KUBELET) || path.starts_with("/etc/kubernetes/");
    (is_signed && !is_own).then_some("/etc/kubernetes/pki/ca.crt")
}

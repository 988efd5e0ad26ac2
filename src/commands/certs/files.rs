//! What the certificates in known files are for, and which CA signs them.

use kubexm_config::Cluster;
use kubexm_config::cluster::Etcd;

/// The directory of kubeadm's certificates, which clusters without kubeadm have as well.
pub(super) const PKI: &str = "/etc/kubernetes/pki";
/// kubexm's directory of files on hosts.
const ETC: &str = "/etc/kubexm";
/// The kubeconfig of the kubelet of kubeadm. It contains a certificate until the kubelet has requested its own one.
pub(super) const KUBELET_KUBECONFIG: &str = "/etc/kubernetes/kubelet.conf";
/// The directory of the kubelet's own certificates.
pub(super) const KUBELET: &str = "/var/lib/kubelet/pki";

/// Files on hosts with what they are for. The path of a directory ends with `/`, and stands for all of its files.
const PURPOSES: &[(&str, &str)] = &[
    ("/etc/kubernetes/admin.conf", "kubeconfig of administrators"),
    (
        "/etc/kubernetes/super-admin.conf",
        "kubeconfig of the group system:masters",
    ),
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
    ("/etc/kubexm/etcd/client.crt", "API server at etcd"),
    ("/etc/kubexm/etcd-member/ca.crt", "CA of etcd"),
    (
        "/etc/kubexm/etcd-member/member.crt",
        "server of etcd, and etcd at other members",
    ),
    ("/etc/kubexm/etcd-member/admin.crt", "etcdctl at etcd"),
    ("/etc/kubexm/registry-ca.crt", "CA of the registry"),
    ("/etc/kubexm/registry/tls.crt", "server of the registry"),
    ("/etc/kubexm/registries/", "CA of a registry of the site"),
    ("/etc/kubexm/haproxy/", "CA that the load balancer trusts"),
    ("/etc/kubexm/nginx/", "CA that the load balancer trusts"),
    (
        "/var/lib/kubelet/pki/kubelet-client-current.pem",
        "kubelet at the API server",
    ),
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
    let mut purposes = PURPOSES.iter();
    let found = purposes.find(|(known, _)| match known.ends_with('/') {
        true => path.starts_with(known),
        false => path == *known,
    });
    found.map(|(_, purpose)| *purpose)
}

/// Returns whether kubeadm or kubexm issues the certificate in a file. Beside theirs, a site can have files of its own, such as
/// the one of `--tls-sni-cert-file`.
pub(super) fn is_issued(cluster: &Cluster, path: &str) -> bool {
    known(path).is_some() && ca_of(cluster, path).is_some()
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

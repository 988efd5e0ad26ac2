//! Which findings follow from others.

use std::collections::BTreeMap;

use super::check::{Check, Found};
use kubexm_config::Cluster;

/// Where a consequence occurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    /// On the same host.
    SameHost,
    /// Anywhere, if the cause is on a control plane or about the whole cluster.
    FromControlPlane,
    /// Anywhere.
    Anywhere,
    /// In a namespace of the cause.
    SameNamespace,
}
use Where::{Anywhere, FromControlPlane, SameHost, SameNamespace};

/// Checks, and those whose findings they explain.
pub(super) const FOLLOWS: &[(&[&str], Where, &[&str])] = &[
    (
        &["unreachable"],
        SameHost,
        &[
            "etcd-member",
            "etcd-quorum",
            "api-server",
            "node",
            "dns",
            "pods",
            "pod-network",
            "images",
        ],
    ),
    (
        &["unreachable"],
        FromControlPlane,
        &["endpoint", "etcd-quorum"],
    ),
    (
        &["clock"],
        SameHost,
        &[
            "certificates",
            "etcd-member",
            "api-server",
            "control-plane",
            "kubelet-credentials",
            "kubelet",
            "node",
        ],
    ),
    (
        &["clock"],
        FromControlPlane,
        &["certificates", "endpoint", "etcd-quorum", "join-tokens"],
    ),
    (
        &["dead-mount"],
        SameHost,
        &["host", "disk-space", "runtime", "kubelet", "node", "pods"],
    ),
    (
        &["disk-space", "inodes", "mount-options"],
        SameHost,
        &[
            "runtime",
            "sandbox-image",
            "registry",
            "etcd-data",
            "etcd-member",
            "etcd-quorum",
            "static-pods",
            "api-server",
            "control-plane",
            "kubelet",
            "node",
            "dns",
            "images",
            "pods",
        ],
    ),
    (
        &["disk-space", "inodes", "mount-options"],
        FromControlPlane,
        &["endpoint", "etcd-quorum"],
    ),
    (
        &["swap", "cgroup", "cgroup-driver"],
        SameHost,
        &[
            "kubelet-settings",
            "kubelet",
            "network-program",
            "node",
            "dns",
            "pods",
        ],
    ),
    (
        &["kernel-network"],
        SameHost,
        &[
            "network-program",
            "pod-network",
            "service-network",
            "dns",
            "pods",
        ],
    ),
    (
        &["kernel-limits"],
        SameHost,
        &["runtime", "kubelet", "service-network", "dns", "pods"],
    ),
    (
        &["certificates"],
        SameHost,
        &[
            "registry-ca",
            "registry",
            "etcd-member",
            "api-server",
            "control-plane",
            "kubelet-credentials",
            "kubelet",
            "node",
        ],
    ),
    (
        &["certificates"],
        FromControlPlane,
        &[
            "etcd-member",
            "etcd-quorum",
            "api-server",
            "endpoint",
            "node",
            "kubelet",
            "dns",
            "pods",
        ],
    ),
    (
        &["runtime-configuration", "runtime"],
        SameHost,
        &[
            "runtime",
            "registry-mirrors",
            "sandbox-image",
            "etcd-member",
            "etcd-quorum",
            "api-server",
            "control-plane",
            "load-balancer",
            "kubelet-settings",
            "kubelet",
            "node",
            "network-program",
            "pod-network",
            "service-network",
            "dns",
            "images",
            "pods",
        ],
    ),
    (
        &["runtime-configuration", "runtime"],
        FromControlPlane,
        &["etcd-quorum", "endpoint"],
    ),
    (
        &["runtime-stale"],
        SameHost,
        &["sandbox-image", "network-program", "dns", "images", "pods"],
    ),
    (
        &["registry-mirrors", "registry-ca"],
        SameHost,
        &["sandbox-image", "dns", "images", "pods"],
    ),
    (
        &["registry"],
        Anywhere,
        &["registry-ca", "sandbox-image", "images"],
    ),
    (
        &["sandbox-image"],
        SameHost,
        &["kubelet", "network-program", "dns", "images", "pods"],
    ),
    (
        &["etcd-disk", "etcd-data"],
        SameHost,
        &["etcd-member", "api-server", "control-plane"],
    ),
    (&["etcd-disk", "etcd-data"], Anywhere, &["etcd-quorum"]),
    (&["etcd-member"], SameHost, &["api-server", "control-plane"]),
    (&["etcd-member"], Anywhere, &["etcd-quorum"]),
    (
        &["etcd-quorum", "etcd-alarm"],
        Anywhere,
        &[
            "api-server",
            "control-plane",
            "join-information",
            "endpoint",
            "kubelet",
            "node",
            "dns",
            "pods",
        ],
    ),
    (&["static-pods"], SameHost, &["api-server", "control-plane"]),
    // As units, kubelet and kube-proxy of a control plane use its own API server.
    (
        &["api-server"],
        SameHost,
        &["control-plane", "node", "network-program", "dns", "pods"],
    ),
    (
        &["api-server"],
        FromControlPlane,
        &["endpoint", "virtual-address"],
    ),
    (
        &["load-balancer", "virtual-address"],
        Anywhere,
        &["endpoint"],
    ),
    (
        &["load-balancer", "virtual-address", "endpoint"],
        SameHost,
        &["kubelet", "node", "network-program", "service-network"],
    ),
    (
        &["control-plane"],
        FromControlPlane,
        &["join-tokens", "pods"],
    ),
    (
        &["kubelet-settings", "kubelet-credentials"],
        SameHost,
        &[
            "kubelet",
            "node",
            "kubelet-requests",
            "endpoint",
            "network-program",
            "dns",
            "pods",
        ],
    ),
    (
        &["kubelet"],
        SameHost,
        &[
            "kubelet-requests",
            "node",
            "network-program",
            "dns",
            "pods",
            "pod-network",
        ],
    ),
    (&["kubelet"], Anywhere, &["endpoint"]),
    (
        &["node-address"],
        SameHost,
        &["kubelet-requests", "node", "firewall", "pod-network"],
    ),
    (&["node"], SameHost, &["dns", "pods"]),
    (
        &["firewall"],
        SameHost,
        &["endpoint", "node", "dns", "pods"],
    ),
    (
        &["network-program", "cni-leftovers"],
        SameHost,
        &["node", "pod-network", "service-network", "dns", "pods"],
    ),
    (&["pod-network"], SameHost, &["pods"]),
    (
        &["pod-network"],
        Anywhere,
        &["service-network", "dns", "api-services"],
    ),
    (&["dns-servers"], Anywhere, &["dns"]),
    (&["images"], SameHost, &["dns", "pods"]),
    (&["pods"], SameNamespace, &["webhooks", "api-services"]),
    (&["api-services"], Anywhere, &["namespaces"]),
    (&["runtime-class"], SameHost, &["pods"]),
    (&["storage-class"], SameNamespace, &["pods"]),
    (
        &[
            "images",
            "pods",
            "runtime-class",
            "storage-class",
            "service-address",
        ],
        SameNamespace,
        &["releases"],
    ),
];

/// Returns for each finding the check of the one that explains it: the one that no other explains, where there is a chain.
pub(super) fn explain(
    cluster: &Cluster,
    findings: &[(&'static Check, Found)],
) -> Vec<Option<&'static str>> {
    let mut parents: BTreeMap<usize, usize> = BTreeMap::new();
    for effect in 0..findings.len() {
        let candidates = (0..findings.len()).filter(|cause| *cause != effect);
        let mut explaining =
            candidates.filter(|cause| explains(cluster, &findings[*cause], &findings[effect]));
        if let Some(cause) = explaining.find(|cause| !leads_to(&parents, *cause, effect)) {
            parents.insert(effect, cause);
        }
    }
    let roots = (0..findings.len()).map(|effect| {
        let mut root = effect;
        while let Some(parent) = parents.get(&root) {
            root = *parent;
        }
        (root != effect).then(|| findings[root].0.id)
    });
    roots.collect()
}

/// Returns whether a finding already follows from another one.
fn leads_to(parents: &BTreeMap<usize, usize>, mut from: usize, to: usize) -> bool {
    while let Some(parent) = parents.get(&from) {
        if *parent == to {
            return true;
        }
        from = *parent;
    }
    false
}

fn explains(
    cluster: &Cluster,
    (cause_check, cause): &(&'static Check, Found),
    (effect_check, effect): &(&'static Check, Found),
) -> bool {
    let mut rows = FOLLOWS.iter();
    !cause.is_warning
        && cause_check.id != effect_check.id
        && rows.any(|(causes, place, effects)| {
            causes.contains(&cause_check.id)
                && effects.contains(&effect_check.id)
                && is_there(cluster, *place, cause, effect)
        })
}

fn is_there(cluster: &Cluster, place: Where, cause: &Found, effect: &Found) -> bool {
    let shares_host = cause.hosts.iter().any(|host| effect.hosts.contains(host));
    if effect.is_stopped() && !shares_host {
        return false;
    }
    match place {
        SameHost => shares_host,
        FromControlPlane => {
            let is_member =
                |host| cluster.is_control_plane(host) || cluster.roles.etcd.contains(host);
            cause.hosts.is_empty() || cause.hosts.iter().any(is_member)
        }
        Anywhere => true,
        SameNamespace => !cause.namespaces.is_disjoint(&effect.namespaces),
    }
}

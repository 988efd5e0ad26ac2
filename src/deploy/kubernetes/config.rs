//! Configurations of Kubernetes' programs, independent of how they run.

use std::collections::BTreeMap;

use super::hardening;
use crate::runtime;
use kubexm_config::cluster::{Cluster, Component};
use kubexm_render::kubeadm as template;
use kubexm_render::kubeadm::{OwnKubeProxy, OwnKubelet};
use kubexm_render::{RenderError, merge};

/// Returns the flags of a program, including feature gates.
pub(super) fn flags(component: &Component) -> BTreeMap<String, String> {
    let mut flags = component.extra_args.clone();
    if !component.feature_gates.is_empty() {
        let gates = component.feature_gates.iter();
        let gates: Vec<String> = gates.map(|(name, on)| format!("{name}={on}")).collect();
        flags.insert("feature-gates".to_owned(), gates.join(","));
    }
    flags
}

/// Returns the KubeletConfiguration. `own` has the fields of a node that kubeadm would add.
pub(super) fn kubelet_config(
    cluster: &Cluster,
    own: Option<OwnKubelet>,
) -> Result<String, RenderError> {
    let what = "kubelet configuration";
    let kubelet = &cluster.kubernetes.kubelet;
    let text = kubexm_render::text(
        what,
        &template::Kubelet {
            cgroup_driver: cluster.runtime.cgroup_driver.name(),
            dns_address: cluster.kubelet_dns_address().to_string(),
            dns_domain: cluster.kubernetes.dns_domain.clone(),
            feature_gates: runtime::kubelet_gates(cluster),
            ciphers: hardening::CIPHERS.to_vec(),
            min_tls: hardening::MIN_TLS,
            cis: cluster.security.is_cis(),
            own,
        },
    )?;
    merge::yaml(what, text, &kubelet.extra_config)
}

/// Returns the KubeProxyConfiguration. `own` has the fields of a node that kubeadm would add.
pub(super) fn kube_proxy_config(
    cluster: &Cluster,
    own: Option<OwnKubeProxy>,
) -> Result<String, RenderError> {
    let what = "kube-proxy configuration";
    let kube_proxy = &cluster.kubernetes.kube_proxy.component;
    let text = kubexm_render::text(
        what,
        &template::KubeProxy {
            mode: cluster.kubernetes.kube_proxy.mode.name().to_owned(),
            pod_cidr: cluster.network.pod_cidr.to_string(),
            feature_gates: cluster.kubernetes.proxy_feature_gates(),
            own,
        },
    )?;
    merge::yaml(what, text, &kube_proxy.extra_config)
}

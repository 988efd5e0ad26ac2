//! `spec.kubernetes`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{KubernetesKind, Patch};
use kubexm_types::Version;

/// `spec.kubernetes`.
#[derive(Debug, Clone)]
pub struct Kubernetes {
    /// How its programs run.
    pub kind: KubernetesKind,
    /// Exact version.
    pub version: Version,
    /// kubeadm's `clusterName`.
    pub cluster_name: String,
    /// DNS domain of services, `cluster.local`.
    pub dns_domain: String,
    /// kube-apiserver.
    pub api_server: Component,
    /// kube-controller-manager.
    pub controller_manager: Component,
    /// kube-scheduler.
    pub scheduler: Component,
    /// kubelet; `extra_config` is merged into its KubeletConfiguration.
    pub kubelet: Component,
    /// kube-proxy; `extra_config` is merged into its KubeProxyConfiguration.
    pub kube_proxy: Component,
    /// How kube-proxy leads packets to pods.
    pub proxy_mode: ProxyMode,
    /// Further names and addresses for the API server's certificate.
    pub cert_sans: Vec<String>,
    /// kubeadm's `--ignore-preflight-errors`.
    pub ignore_preflight_errors: Vec<String>,
    /// What is changed in what kubeadm writes, in this order.
    pub patches: Vec<Patch>,
}

impl Kubernetes {
    /// Whether the user wants a check's finding to be no error; checks have kubeadm's names where it has
    /// them, in any case.
    pub fn ignores(&self, check: &str) -> bool {
        let mut ignored = self.ignore_preflight_errors.iter();
        ignored.any(|name| name.eq_ignore_ascii_case(check) || name == "all")
    }
}

/// The version of kubeadm's API that a kubeadm takes without complaint
/// (<https://kubernetes.io/docs/reference/config-api/kubeadm-config.v1beta4/>).
pub fn kubeadm_api(version: &Version) -> &'static str {
    match *version < Version::new(1, 31, 0) {
        true => "v1beta3",
        false => "v1beta4",
    }
}

/// kube-proxy's modes
/// (<https://kubernetes.io/docs/reference/networking/virtual-ips/#proxy-modes>).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyMode {
    /// iptables.
    Iptables,
    /// nftables: since Kubernetes 1.29 behind a feature gate, since 1.31 without.
    Nftables,
    /// IPVS: deprecated since Kubernetes 1.35.
    Ipvs,
}

/// What kube-proxy's IPVS mode needs of the kernel
/// (<https://kubernetes.io/docs/reference/networking/virtual-ips/#proxy-mode-ipvs>), with the
/// schedulers that it offers first.
pub const IPVS_MODULES: [&str; 4] = ["ip_vs", "ip_vs_rr", "ip_vs_wrr", "ip_vs_sh"];

impl ProxyMode {
    /// kube-proxy's own name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Iptables => "iptables",
            Self::Nftables => "nftables",
            Self::Ipvs => "ipvs",
        }
    }
}

impl Kubernetes {
    /// kube-proxy's feature gates: the user's, and the one that its mode needs in this version
    /// (<https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates/>).
    pub fn proxy_feature_gates(&self) -> BTreeMap<String, bool> {
        let mut gates = self.kube_proxy.feature_gates.clone();
        if self.proxy_mode == ProxyMode::Nftables && self.version < Version::new(1, 31, 0) {
            gates.entry("NFTablesProxyMode".to_owned()).or_insert(true);
        }
        gates
    }
}

/// Settings of one Kubernetes program.
#[derive(Debug, Clone)]
pub struct Component {
    /// Flags without the leading dashes.
    pub extra_args: BTreeMap<String, String>,
    /// Feature gates.
    pub feature_gates: BTreeMap<String, bool>,
    /// Configuration merged over what kubexm renders; an empty object where there is none.
    pub extra_config: Value,
}

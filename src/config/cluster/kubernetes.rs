//! `spec.kubernetes`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use super::{KubernetesKind, Patch};
use kubexm_types::{CertificateName, HostPath, Line, Version};

/// `spec.kubernetes`.
#[derive(Debug, Clone)]
pub struct Kubernetes {
    pub kind: KubernetesKind,
    pub version: Version,
    /// `clusterName` in kubeadm's configuration.
    pub cluster_name: String,
    /// DNS domain of the cluster, such as `cluster.local`.
    pub dns_domain: String,
    pub api_server: ApiServer,
    pub controller_manager: Component,
    pub scheduler: Component,
    /// The kubelet; `extra_config` is merged into its KubeletConfiguration.
    pub kubelet: Component,
    pub kube_proxy: KubeProxy,
    pub kubeadm: Kubeadm,
    /// How long new certificates are valid.
    pub validity: Validity,
    /// The CA of the site that signs the certificates of Kubernetes; `None` for a new one.
    pub site_ca: Option<SiteCa>,
}

/// `spec.kubernetes.apiServer`.
#[derive(Debug, Clone)]
pub struct ApiServer {
    pub component: Component,
    /// The port on which the API servers listen, on control planes.
    pub port: u16,
    /// Additional names and addresses for the certificate.
    pub cert_sans: Vec<CertificateName>,
}

/// `spec.kubernetes.kubeProxy`.
#[derive(Debug, Clone)]
pub struct KubeProxy {
    /// `extra_config` is merged into its KubeProxyConfiguration.
    pub component: Component,
    pub mode: ProxyMode,
}

/// `spec.kubernetes.kubeadm`.
#[derive(Debug, Clone, Default)]
pub struct Kubeadm {
    /// kubeadm's `--ignore-preflight-errors`.
    pub ignore_preflight_errors: Vec<String>,
    /// Patches of the files that kubeadm writes, in this order.
    pub patches: Vec<Patch>,
    /// Fields that are merged into kubeadm's configuration.
    pub config: KubeadmConfig,
    /// Phases that kubeadm leaves out.
    pub skip_phases: SkipPhases,
}

/// Fields that are merged into the documents of kubeadm's configuration; each may be an empty object
/// (<https://kubernetes.io/docs/reference/config-api/kubeadm-config.v1beta4/>).
#[derive(Debug, Clone, Default)]
pub struct KubeadmConfig {
    /// `InitConfiguration`.
    pub init: Value,
    /// `ClusterConfiguration`.
    pub cluster: Value,
    /// `JoinConfiguration` of each node but the first.
    pub join: Value,
}

/// Phases that kubeadm leaves out (`skipPhases`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkipPhases {
    /// Phases of `kubeadm init`.
    pub init: Vec<String>,
    /// Phases of `kubeadm join`.
    pub join: Vec<String>,
}

/// `spec.kubernetes.certificates.ca`: files on this machine, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteCa {
    pub cert_file: PathBuf,
    pub key_file: PathBuf,
}

/// How long new certificates are valid, in days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Certificates of servers and clients.
    pub days: u16,
    /// Certificate authorities.
    pub ca_days: u16,
}

impl Default for Validity {
    /// Returns the validity that kubeadm chooses.
    fn default() -> Self {
        Self {
            days: 365,
            ca_days: 3650,
        }
    }
}

impl Kubernetes {
    /// Returns true if the user ignores the findings of a check. Checks have the names that kubeadm uses; upper and
    /// lower case are equal.
    pub fn ignores(&self, check: &str) -> bool {
        let mut ignored = self.kubeadm.ignore_preflight_errors.iter();
        ignored.any(|name| name.eq_ignore_ascii_case(check) || name == "all")
    }
}

/// Returns the API version that a version of kubeadm accepts without a warning
/// (<https://kubernetes.io/docs/reference/config-api/kubeadm-config.v1beta4/>).
pub fn kubeadm_api(version: &Version) -> &'static str {
    if *version < Version::new(1, 31, 0) {
        "v1beta3"
    } else {
        "v1beta4"
    }
}

/// Modes of kube-proxy
/// (<https://kubernetes.io/docs/reference/networking/virtual-ips/#proxy-modes>).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyMode {
    Iptables,
    /// Since Kubernetes 1.29 behind a feature gate, since 1.31 without.
    Nftables,
    /// Deprecated since Kubernetes 1.35.
    Ipvs,
}

/// Kernel modules that the IPVS mode of kube-proxy requires
/// (<https://kubernetes.io/docs/reference/networking/virtual-ips/#proxy-mode-ipvs>), with the
/// first schedulers that it offers.
const IPVS_MODULES: [&str; 4] = ["ip_vs", "ip_vs_rr", "ip_vs_wrr", "ip_vs_sh"];
/// Schedulers of the kernel, each of which has a module (`net/netfilter/ipvs/Kconfig` of Linux).
/// Without one, it is `rr`.
pub(crate) const IPVS_SCHEDULERS: [&str; 14] = [
    "", "rr", "wrr", "lc", "wlc", "fo", "ovf", "lblc", "lblcr", "dh", "sh", "mh", "sed", "nq",
];

impl ProxyMode {
    /// Returns the name that kube-proxy uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Iptables => "iptables",
            Self::Nftables => "nftables",
            Self::Ipvs => "ipvs",
        }
    }
}

impl Kubernetes {
    /// Returns the kernel modules that the IPVS mode of kube-proxy requires; none for another mode.
    pub fn ipvs_modules(&self) -> Vec<String> {
        if self.kube_proxy.mode != ProxyMode::Ipvs {
            return Vec::new();
        }
        let scheduler = &self.kube_proxy.component.extra_config["ipvs"]["scheduler"];
        let scheduler = scheduler.as_str().filter(|name| !name.is_empty());
        let scheduler = scheduler.map(|name| format!("ip_vs_{name}"));
        let mut modules: Vec<String> = IPVS_MODULES.map(str::to_owned).into();
        modules.extend(scheduler.filter(|name| !IPVS_MODULES.contains(&name.as_str())));
        modules
    }

    /// Returns the feature gates of kube-proxy: those of the user, and the one that the mode requires in this version
    /// (<https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates/>).
    pub fn proxy_feature_gates(&self) -> BTreeMap<String, bool> {
        let mut gates = self.kube_proxy.component.feature_gates.clone();
        if self.kube_proxy.mode == ProxyMode::Nftables && self.version < Version::new(1, 31, 0) {
            gates.entry("NFTablesProxyMode".to_owned()).or_insert(true);
        }
        gates
    }
}

/// Settings of one program of Kubernetes.
#[derive(Debug, Clone)]
pub struct Component {
    /// Flags, without the leading dashes. No value has control characters.
    pub extra_args: BTreeMap<String, String>,
    pub feature_gates: BTreeMap<String, bool>,
    /// Fields that are merged into the configuration file; may be an empty object.
    pub extra_config: Value,
    /// Files and directories of the host for the pod of a control plane program.
    pub extra_volumes: Vec<ExtraVolume>,
}

/// A file or directory of the host in the pod of a control plane program
/// (<https://kubernetes.io/docs/reference/config-api/kubeadm-config.v1beta4/>, `HostPathMount`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraVolume {
    /// The name of the volume: a DNS label.
    pub name: Line,
    /// The path on the host.
    pub host_path: HostPath,
    /// The path in the container.
    pub mount_path: HostPath,
    pub read_only: bool,
    /// The type of a hostPath volume, as in `File`; `None` for no check.
    pub kind: Option<&'static str>,
}

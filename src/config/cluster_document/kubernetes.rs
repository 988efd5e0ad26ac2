//! `spec.kubernetes`.

use std::collections::BTreeMap;

use super::patches::read_patches;
use crate::cluster::{
    Component, FORMER_SYSTEMD, HostSpec, Kubernetes, KubernetesKind, Patch, ProxyMode,
};
use crate::reader::{Choice, Fields, accept};
use crate::yaml::Value;
use kubexm_types::{CertificateName, FeatureGate, FlagName, FlagValue, HostName, Line, Version};

/// Values of `kubernetes.type`, and of `kubernetes.types` in a bundle manifest.
pub(crate) const KINDS: Choice<'_> = Choice {
    accepted: KubernetesKind::NAMES,
    former: FORMER_SYSTEMD,
    later: &[],
};

pub(super) fn read_kubernetes(
    spec: &Fields<'_>,
    hosts: &[HostSpec],
    offered: Option<&[Version]>,
) -> Option<Kubernetes> {
    let node = spec.required("kubernetes")?;
    let fields = spec.reader().fields(node, "spec.kubernetes");
    let version: Option<Version> = fields
        .required("version")
        .and_then(|_| fields.value("version"));
    if let (Some(version), Some(offered)) = (&version, offered) {
        check_offered(&fields, version, offered);
    }
    let kind = fields.choice("type", KINDS).and_then(KubernetesKind::named);
    let kind = kind.unwrap_or(KubernetesKind::Kubeadm);
    let cluster_name = fields
        .value::<Line>("clusterName")
        .map_or_else(|| "kubernetes".to_owned(), |name| name.to_string());
    let dns_domain = fields
        .value::<HostName>("dnsDomain")
        .map(|name| name.to_string());
    let (api_server, cert_sans) = read_api_server(&fields);
    let controller_manager = read_component(&fields, "controllerManager");
    let scheduler = read_component(&fields, "scheduler");
    let kubelet = read_component(&fields, "kubelet");
    let (kube_proxy, proxy_mode) = read_kube_proxy(&fields);
    if let Some(version) = &version {
        check_proxy_mode(&fields, version, proxy_mode);
    }
    let (ignore_preflight_errors, patches) = read_kubeadm(&fields, hosts);
    fields.finish();
    Some(Kubernetes {
        kind,
        version: version?,
        cluster_name,
        dns_domain: dns_domain.unwrap_or_else(|| "cluster.local".to_owned()),
        api_server,
        controller_manager,
        scheduler,
        kubelet,
        kube_proxy,
        proxy_mode,
        cert_sans,
        ignore_preflight_errors,
        patches,
    })
}

fn read_kubeadm(kubernetes: &Fields<'_>, hosts: &[HostSpec]) -> (Vec<String>, Vec<Patch>) {
    let Some(fields) = kubernetes.section("kubeadm") else {
        return (Vec::new(), Vec::new());
    };
    let ignored: Vec<Line> = fields.values("ignorePreflightErrors");
    let ignored = ignored.iter().map(ToString::to_string).collect();
    let patches = read_patches(&fields, hosts);
    fields.finish();
    (ignored, patches)
}

/// Checks that the bundle contains the version.
fn check_offered(fields: &Fields<'_>, version: &Version, offered: &[Version]) {
    if offered.contains(version) {
        return;
    }
    if let Some(node) = fields.get("version") {
        let list: Vec<String> = offered
            .iter()
            .map(|version| format!("v{version}"))
            .collect();
        let hint = format!(
            "the bundle contains {}: use that version, or build a bundle with v{version}",
            list.join(", ")
        );
        let message = format!("the bundle does not contain Kubernetes v{version}");
        let path = fields.path("version");
        fields.reader().problem(node, &path, message, Some(&hint));
    }
}

/// Checks that kube-proxy of this version has the mode.
fn check_proxy_mode(fields: &Fields<'_>, version: &Version, mode: ProxyMode) {
    if mode != ProxyMode::Nftables || *version >= Version::new(1, 29, 0) {
        return;
    }
    if let Some(node) = fields.at("kubeProxy.mode") {
        let message = format!("kube-proxy {version} does not have the mode nftables");
        let hint = "use iptables, or Kubernetes 1.29 or newer";
        let path = fields.path("kubeProxy.mode");
        fields.reader().problem(node, &path, message, Some(hint));
    }
}

pub(super) fn empty_component() -> Component {
    Component {
        extra_args: BTreeMap::new(),
        feature_gates: BTreeMap::new(),
        extra_config: serde_json::json!({}),
    }
}

/// Reads `extraArgs`.
pub(super) fn read_flags(fields: &Fields<'_>) -> BTreeMap<String, String> {
    let flags: BTreeMap<FlagName, FlagValue> = fields.map("extraArgs");
    let flags = flags.into_iter();
    flags
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect()
}

pub(super) fn component_fields(fields: &Fields<'_>) -> Component {
    let reader = fields.reader();
    let extra_args = read_flags(fields);
    let mut feature_gates = BTreeMap::new();
    if let Some(gates) = fields.section("featureGates") {
        for (name, key, node) in gates.keyed() {
            let path = gates.path(name);
            match (name.parse::<FeatureGate>(), &node.value) {
                (Ok(gate), Value::Bool(on)) => {
                    feature_gates.insert(gate.to_string(), *on);
                }
                (Err(error), _) => reader.problem(key, &path, error, None),
                _ => reader.problem(node, &path, "expected true or false", None),
            }
        }
    }
    Component {
        extra_args,
        feature_gates,
        extra_config: fields.json_object("extraConfig"),
    }
}

pub(super) fn read_component(kubernetes: &Fields<'_>, name: &'static str) -> Component {
    kubernetes
        .section(name)
        .map_or_else(empty_component, |fields| {
            let component = component_fields(&fields);
            refuse_extra_config(&fields, name, &component);
            fields.finish();
            component
        })
}

/// Refuses `extraConfig` of a program without a configuration file.
pub(super) fn refuse_extra_config(fields: &Fields<'_>, name: &str, component: &Component) {
    let empty = component
        .extra_config
        .as_object()
        .is_none_or(serde_json::Map::is_empty);
    if name == "kubelet" || empty {
        return;
    }
    if let Some(node) = fields.get("extraConfig") {
        let hint = "use extraArgs: flags configure this program";
        fields.reader().problem(
            node,
            &fields.path("extraConfig"),
            "is not accepted here",
            Some(hint),
        );
    }
}

pub(super) fn read_api_server(kubernetes: &Fields<'_>) -> (Component, Vec<CertificateName>) {
    kubernetes.section("apiServer").map_or_else(
        || (empty_component(), Vec::new()),
        |fields| {
            let component = component_fields(&fields);
            refuse_extra_config(&fields, "apiServer", &component);
            let sans = fields.values("certSANs");
            fields.finish();
            (component, sans)
        },
    )
}

pub(super) fn read_kube_proxy(kubernetes: &Fields<'_>) -> (Component, ProxyMode) {
    kubernetes.section("kubeProxy").map_or_else(
        || (empty_component(), ProxyMode::Iptables),
        |fields| {
            let component = component_fields(&fields);
            let mode = match fields.choice("mode", accept(&["iptables", "nftables", "ipvs"])) {
                Some("nftables") => ProxyMode::Nftables,
                Some("ipvs") => ProxyMode::Ipvs,
                _ => ProxyMode::Iptables,
            };
            fields.finish();
            (component, mode)
        },
    )
}

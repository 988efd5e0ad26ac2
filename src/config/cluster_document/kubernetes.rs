//! `spec.kubernetes`.

use std::collections::BTreeMap;

use super::controller_file::read_file;
use super::kubeadm::read_kubeadm;
use super::kubelet;
use super::own_fields::{self, Own};
use super::volumes::read_volumes;
use crate::cluster::{
    ApiServer, Component, FORMER_SYSTEMD, HostSpec, KubeProxy, Kubernetes, KubernetesKind,
    ProxyMode, SiteCa, Validity,
};
use crate::ports;
use crate::reader::{Choice, Fields, accept};
use crate::yaml::Value;
use kubexm_types::{FeatureGate, FlagName, FlagValue, HostName, Line, Version};

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
    let api_server = read_api_server(&fields);
    let controller_manager = read_component(&fields, "controllerManager");
    let scheduler = read_component(&fields, "scheduler");
    let kubelet = read_component(&fields, "kubelet");
    let kube_proxy = read_kube_proxy(&fields);
    if let Some(version) = &version {
        check_proxy_mode(&fields, version, kube_proxy.mode);
    }
    fields.refuse(
        "containerRuntime",
        "is unknown",
        "write containerRuntime directly below spec",
    );
    let kubeadm = read_kubeadm(&fields, hosts);
    let (validity, site_ca) = read_certificates(&fields);
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
        kubeadm,
        validity,
        site_ca,
    })
}

/// Reads how long certificates are valid, and the CA of the site. A CA is valid for at least as long as what it signs.
fn read_certificates(kubernetes: &Fields<'_>) -> (Validity, Option<SiteCa>) {
    let default = Validity::default();
    let Some(fields) = kubernetes.section("certificates") else {
        return (default, None);
    };
    let site_ca = read_site_ca(&fields);
    let days = |name: &'static str, default: u16| {
        let days = fields.number(name, 1, 36500);
        days.and_then(|days| u16::try_from(days).ok())
            .unwrap_or(default)
    };
    let validity = Validity {
        days: days("validityDays", default.days),
        ca_days: days("caValidityDays", default.ca_days),
    };
    if validity.days > validity.ca_days {
        let message = format!(
            "validityDays {} is more than caValidityDays {}",
            validity.days, validity.ca_days
        );
        let hint = "a certificate ends with its CA: set a larger caValidityDays";
        fields.problem_here(message, Some(hint));
    }
    fields.finish();
    (validity, site_ca)
}

fn read_site_ca(certificates: &Fields<'_>) -> Option<SiteCa> {
    let fields = certificates.section("ca")?;
    let names = ["certFile", "keyFile"];
    let hint = "a CA of the site needs certFile and keyFile: control planes sign with its key";
    fields.require_all(&names, hint);
    let [cert, key] = names.map(|name| read_file(&fields, name));
    fields.finish();
    Some(SiteCa {
        cert_file: cert?,
        key_file: key?,
    })
}

/// Checks that the bundle contains the version.
fn check_offered(fields: &Fields<'_>, version: &Version, offered: &[Version]) {
    if offered.contains(version) {
        return;
    }
    let list: Vec<String> = offered
        .iter()
        .map(|version| format!("v{version}"))
        .collect();
    let hint = if list.is_empty() {
        format!(
            "its manifest does not have spec.kubernetes, so it is for applications only; use a bundle with v{version}"
        )
    } else {
        format!(
            "the bundle contains {}: use that version, or build a bundle with v{version}",
            list.join(", ")
        )
    };
    let message = format!("the bundle does not contain Kubernetes v{version}");
    fields.problem("version", message, Some(&hint));
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
        extra_volumes: Vec::new(),
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
        extra_config: serde_json::json!({}),
        extra_volumes: Vec::new(),
    }
}

pub(super) fn read_component(kubernetes: &Fields<'_>, name: &'static str) -> Component {
    kubernetes
        .section(name)
        .map_or_else(empty_component, |fields| {
            let mut component = component_fields(&fields);
            match name {
                "controllerManager" => refuse_extra_config(&fields),
                "kubelet" => {
                    component.extra_config = read_extra_config(&fields, &own_fields::KUBELET);
                    let values = &own_fields::VALUES_OF_KUBELET;
                    own_fields::refuse_values(&fields, "extraConfig", values);
                    kubelet::read_settings(&fields, &mut component.extra_config);
                }
                _ => component.extra_config = read_extra_config(&fields, &own_fields::SCHEDULER),
            }
            if name != "kubelet" {
                component.extra_volumes = read_volumes(&fields);
            }
            fields.finish();
            component
        })
}

/// Reads `extraConfig`, which does not accept the fields that kubexm writes.
fn read_extra_config(fields: &Fields<'_>, own: &[Own]) -> serde_json::Value {
    own_fields::refuse_all(fields, "extraConfig", own);
    fields.json_object("extraConfig")
}

/// Refuses `extraConfig` of a program without a configuration file.
fn refuse_extra_config(fields: &Fields<'_>) {
    let hint = "use extraArgs: flags configure this program";
    fields.refuse("extraConfig", "is not accepted here", hint);
}

fn read_api_server(kubernetes: &Fields<'_>) -> ApiServer {
    let Some(fields) = kubernetes.section("apiServer") else {
        return ApiServer {
            component: empty_component(),
            port: ports::API_SERVER,
            cert_sans: Vec::new(),
        };
    };
    let mut component = component_fields(&fields);
    refuse_extra_config(&fields);
    fields.refuse("certExtraSans", "is unknown", "write certSANs");
    component.extra_volumes = read_volumes(&fields);
    let cert_sans = fields.values("certSANs");
    let port = fields.number("port", 1, 65535);
    let port = port.and_then(|port| u16::try_from(port).ok());
    fields.finish();
    ApiServer {
        component,
        port: port.unwrap_or(ports::API_SERVER),
        cert_sans,
    }
}

pub(super) fn read_kube_proxy(kubernetes: &Fields<'_>) -> KubeProxy {
    let Some(fields) = kubernetes.section("kubeProxy") else {
        return KubeProxy {
            component: empty_component(),
            mode: ProxyMode::Iptables,
        };
    };
    let mut component = component_fields(&fields);
    component.extra_config = read_extra_config(&fields, &own_fields::KUBE_PROXY);
    own_fields::refuse_values(&fields, "extraConfig", &own_fields::VALUES_OF_KUBE_PROXY);
    let mode = match fields.choice("mode", accept(&["iptables", "nftables", "ipvs"])) {
        Some("nftables") => ProxyMode::Nftables,
        Some("ipvs") => ProxyMode::Ipvs,
        _ => ProxyMode::Iptables,
    };
    fields.finish();
    KubeProxy { component, mode }
}

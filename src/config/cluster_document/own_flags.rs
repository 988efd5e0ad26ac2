//! Flags of Kubernetes' programs that kubexm sets, and that `extraArgs` therefore does not accept.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::contradiction::refuse;
use crate::cluster::{Cluster, Component, KubernetesKind};
use crate::reader::Fields;

/// A flag, and what the user sets instead.
type Own = (&'static str, &'static str);

const REMOVE: &str = "remove the flag: the cluster does not work with another value";
const NEEDED: &str = "the cluster does not work with another value";
const CERTIFICATES: &str =
    "remove the flag: apiServer.certSANs sets the names in the certificate of the API server";
const POD_CIDR: &str = "use network.podCIDR";
const SERVICE_CIDR: &str = "use network.serviceCIDR";
const ETCD: &str = "use etcd.type and etcd.external";

const API_SERVER: [Own; 22] = [
    ("secure-port", "use kubernetes.apiServer.port"),
    ("advertise-address", "use internalAddress of the host"),
    ("etcd-servers", ETCD),
    ("etcd-cafile", ETCD),
    ("etcd-certfile", ETCD),
    ("etcd-keyfile", ETCD),
    ("service-cluster-ip-range", SERVICE_CIDR),
    ("client-ca-file", REMOVE),
    ("tls-cert-file", CERTIFICATES),
    ("tls-private-key-file", CERTIFICATES),
    ("kubelet-client-certificate", REMOVE),
    ("kubelet-client-key", REMOVE),
    ("proxy-client-cert-file", REMOVE),
    ("proxy-client-key-file", REMOVE),
    ("requestheader-allowed-names", REMOVE),
    ("requestheader-client-ca-file", REMOVE),
    ("requestheader-extra-headers-prefix", REMOVE),
    ("requestheader-group-headers", REMOVE),
    ("requestheader-username-headers", REMOVE),
    ("service-account-key-file", REMOVE),
    ("service-account-signing-key-file", REMOVE),
    ("enable-bootstrap-token-auth", REMOVE),
];
const CONTROLLER_MANAGER: [Own; 14] = [
    ("secure-port", REMOVE),
    ("kubeconfig", REMOVE),
    ("authentication-kubeconfig", REMOVE),
    ("authorization-kubeconfig", REMOVE),
    ("client-ca-file", REMOVE),
    ("cluster-cidr", POD_CIDR),
    ("cluster-name", "use kubernetes.clusterName"),
    ("cluster-signing-cert-file", REMOVE),
    ("cluster-signing-key-file", REMOVE),
    ("root-ca-file", REMOVE),
    ("requestheader-client-ca-file", REMOVE),
    ("service-account-private-key-file", REMOVE),
    ("service-cluster-ip-range", SERVICE_CIDR),
    ("use-service-account-credentials", REMOVE),
];
const SCHEDULER: [Own; 4] = [
    ("secure-port", REMOVE),
    ("kubeconfig", REMOVE),
    ("authentication-kubeconfig", REMOVE),
    ("authorization-kubeconfig", REMOVE),
];
/// Of the scheduler as a unit. kubeadm does not set the flag.
const SCHEDULER_UNIT: [Own; 1] = [("config", "use kubernetes.scheduler.extraConfig")];
const KUBELET: [Own; 21] = [
    ("config", "use kubernetes.kubelet.extraConfig"),
    ("kubeconfig", REMOVE),
    ("bootstrap-kubeconfig", REMOVE),
    ("hostname-override", "name the host in spec.hosts"),
    ("container-runtime-endpoint", "use containerRuntime.type"),
    ("cgroup-driver", "use containerRuntime.cgroupDriver"),
    ("cluster-dns", "use spec.dns"),
    ("cluster-domain", "use kubernetes.dnsDomain"),
    ("node-ip", "use internalAddress of the hosts"),
    (
        "root-dir",
        "mount a disk at /var/lib/kubelet if pods need one",
    ),
    (
        "register-with-taints",
        "use taints of the hosts, or taints of spec.defaults",
    ),
    (
        "fail-swap-on",
        "use failSwapOn of kubernetes.kubelet.extraConfig",
    ),
    ("address", REMOVE),
    ("anonymous-auth", REMOVE),
    ("authorization-mode", REMOVE),
    ("cert-dir", REMOVE),
    ("client-ca-file", REMOVE),
    ("enable-server", REMOVE),
    ("pod-manifest-path", REMOVE),
    ("port", REMOVE),
    ("rotate-certificates", REMOVE),
];
/// Values that kubexm itself sets.
const SAME: [(&str, &str); 4] = [
    ("anonymous-auth", "false"),
    ("authorization-mode", "Webhook"),
    ("enable-server", "true"),
    ("rotate-certificates", "true"),
];
/// The flag without which a kubelet does not create its node.
const REGISTER_NODE: &str = "register-node";
const NOT_A_NODE: &str = "remove hosts that are not nodes from spec.hosts";
const KUBE_PROXY: [Own; 5] = [
    ("config", "use kubernetes.kubeProxy.extraConfig"),
    ("kubeconfig", REMOVE),
    ("hostname-override", "name the host in spec.hosts"),
    ("cluster-cidr", POD_CIDR),
    ("proxy-mode", "use kubernetes.kubeProxy.mode"),
];

/// Returns why a kubelet must not have a flag that kubexm decides, or what a user sets instead; `None` if kubexm does not decide it.
pub fn own_kubelet_flag(name: &str, value: &str) -> Option<&'static str> {
    if (name, value) == (REGISTER_NODE, "false") {
        return Some(NOT_A_NODE);
    }
    if SAME.contains(&(name, value)) {
        return None;
    }
    let mut own = KUBELET.iter();
    let (_, hint) = own.find(|(flag, _)| *flag == name)?;
    Some(if *hint == REMOVE { NEEDED } else { hint })
}

/// Refuses flags that kubexm or kubeadm sets, and flags that have no effect.
pub(super) fn check(spec: &Fields<'_>, cluster: &Cluster) {
    let kubernetes = &cluster.kubernetes;
    let is_unit = kubernetes.kind == KubernetesKind::Systemd;
    let of_units: &[Own] = if is_unit { &SCHEDULER_UNIT } else { &[] };
    let programs: [(&str, &Component, &[&[Own]]); 5] = [
        (
            "apiServer",
            &kubernetes.api_server.component,
            &[&API_SERVER],
        ),
        (
            "controllerManager",
            &kubernetes.controller_manager,
            &[&CONTROLLER_MANAGER],
        ),
        ("scheduler", &kubernetes.scheduler, &[&SCHEDULER, of_units]),
        ("kubelet", &kubernetes.kubelet, &[&KUBELET]),
        (
            "kubeProxy",
            &kubernetes.kube_proxy.component,
            &[&KUBE_PROXY],
        ),
    ];
    for (program, component, own) in programs {
        for (flag, hint) in own.iter().copied().flatten() {
            let value = component.extra_args.get(*flag);
            let is_same = value.is_some_and(|value| SAME.contains(&(*flag, value.as_str())));
            if is_same && program == "kubelet" {
                continue;
            }
            refuse_flag(spec, program, &component.extra_args, flag, hint);
        }
    }
    check_values(spec, cluster);
    check_kubeadm_proxy(spec, cluster);
    check_encryption(spec, cluster);
    check_labels(spec, cluster);
}

/// Refuses values of flags with which the cluster does not work, or with which nodes may do what they want.
fn check_values(spec: &Fields<'_>, cluster: &Cluster) {
    let kubernetes = &cluster.kubernetes;
    let server = &kubernetes.api_server.component.extra_args;
    let refuse_value = |program: &str, flag: &str, message: &str, hint: &str| {
        refuse_at(spec, (program, flag), message, hint);
    };
    let lacks = |flag: &str, names: &[&str]| {
        let given = server.get(flag)?;
        let has = |name: &&str| given.split(',').any(|one| one.trim() == *name);
        let missing: Vec<&str> = names.iter().copied().filter(|name| !has(name)).collect();
        (!missing.is_empty()).then(|| missing.join(" and "))
    };
    let modes = "authorization-mode";
    if let Some(missing) = lacks(modes, &["Node", "RBAC"]) {
        let message = format!("does not contain {missing}: kubelets and kubexm need it");
        let hint = "write Node,RBAC, and other modes after them";
        refuse_value("apiServer", modes, &message, hint);
    }
    let plugins = "enable-admission-plugins";
    if let Some(missing) = lacks(plugins, &["NodeRestriction"]) {
        let message =
            format!("does not contain {missing}: a node could change the objects of other nodes");
        let hint = "add NodeRestriction to the list";
        refuse_value("apiServer", plugins, &message, hint);
    }
    let anonymous = "anonymous-auth";
    let is_kubeadm = kubernetes.kind == KubernetesKind::Kubeadm;
    if is_kubeadm && is_off(server, anonymous) {
        let message =
            "ends the API server: the probes of kubeadm, and nodes that join, are anonymous";
        let hint = "remove the flag, or permit /livez, /readyz and /healthz alone with authentication-config";
        refuse_value("apiServer", anonymous, message, hint);
    }
    let address = "bind-address";
    let is_loopback = |text: &String| text.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    if server.get(address).is_some_and(is_loopback) {
        let message = "is a loopback address: other hosts and pods could not connect";
        let hint = "remove the flag: the API server listens on all addresses of its host";
        refuse_value("apiServer", address, message, hint);
    }
    let disabled = "disable-admission-plugins";
    let given = server.get(disabled).into_iter();
    let names: BTreeSet<&str> = given
        .flat_map(|list| list.split(','))
        .map(str::trim)
        .collect();
    for (name, why) in [
        (
            "NodeRestriction",
            "a node could change the objects of other nodes",
        ),
        (
            "ServiceAccount",
            "pods would have no account to ask the API server",
        ),
    ] {
        if names.contains(name) {
            let message = format!("contains {name}: {why}");
            let hint = format!("remove {name} from the list");
            refuse_value("apiServer", disabled, &message, &hint);
        }
    }
    if is_off(&kubernetes.kubelet.extra_args, REGISTER_NODE) {
        let message = "keeps hosts out of the cluster, and kubexm waits for their nodes";
        refuse_value("kubelet", REGISTER_NODE, message, NOT_A_NODE);
    }
    let allocates = "allocate-node-cidrs";
    let plugin = cluster.network.plugin.kind();
    let flags = &kubernetes.controller_manager.extra_args;
    if plugin.properties().has_bridge && is_off(flags, allocates) {
        let message = format!(
            "leaves nodes without a pod subnet, which {} needs",
            plugin.name()
        );
        let hint = "remove the flag, or use another network plugin";
        refuse_value("controllerManager", allocates, &message, hint);
    }
}

/// Refuses a flag of a program if the user sets it.
fn refuse_flag(
    spec: &Fields<'_>,
    program: &str,
    flags: &BTreeMap<String, String>,
    flag: &str,
    hint: &str,
) {
    if flags.contains_key(flag) {
        refuse_at(spec, (program, flag), "is set by kubexm", hint);
    }
}

fn refuse_at(spec: &Fields<'_>, (program, flag): (&str, &str), message: &str, hint: &str) {
    let path = format!("spec.kubernetes.{program}.extraArgs.{flag}");
    refuse(spec, &path, message, hint);
}

/// Returns whether the user turns a flag off.
pub(super) fn is_off(flags: &BTreeMap<String, String>, flag: &str) -> bool {
    flags.get(flag).is_some_and(|value| value == "false")
}

/// Refuses flags of kube-proxy with kubeadm, whose DaemonSet has a fixed command line.
fn check_kubeadm_proxy(spec: &Fields<'_>, cluster: &Cluster) {
    let kubernetes = &cluster.kubernetes;
    let has_flags = !kubernetes.kube_proxy.component.extra_args.is_empty();
    if kubernetes.kind == KubernetesKind::Kubeadm && has_flags {
        let message = "has no effect: kubeadm deploys kube-proxy without further flags";
        let hint = "use kubeProxy.extraConfig, as in {conntrack: {min: 0}}";
        let path = "spec.kubernetes.kubeProxy.extraArgs";
        refuse(spec, path, message, hint);
    }
}

/// Refuses a second configuration of the encryption.
fn check_encryption(spec: &Fields<'_>, cluster: &Cluster) {
    if cluster.security.encryption.is_some() {
        let hint = "use security.encryption, or set its provider to none";
        let flags = &cluster.kubernetes.api_server.component.extra_args;
        refuse_flag(spec, "apiServer", flags, "encryption-provider-config", hint);
    }
}

/// Refuses labels as a flag of kubelets if hosts have labels, which kubexm writes into the same flag.
fn check_labels(spec: &Fields<'_>, cluster: &Cluster) {
    if cluster.hosts.iter().any(|host| !host.labels.is_empty()) {
        let hint = "use labels of the hosts, or labels of spec.defaults";
        let flags = &cluster.kubernetes.kubelet.extra_args;
        refuse_flag(spec, "kubelet", flags, "node-labels", hint);
    }
}

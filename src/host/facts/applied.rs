//! Settings with which the programs of an installed host run. An install cannot change them.
//!
//! The files are read by lines, and not as YAML: a file that a full disk has truncated still has its first settings, and a
//! cluster file that contradicts them must be refused.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_kinds::{PluginKind, load_balancer};

use super::Setting;
use super::printed::Printed;

pub(super) const KUBEADM_INIT: &str = "/var/lib/kubexm/done/kubeadm-init";
pub(super) const KUBEADM_JOIN: &str = "/var/lib/kubexm/done/kubeadm-join";
pub(super) const KUBERNETES_NODE: &str = "/var/lib/kubexm/done/kubernetes-node";
pub(super) const ADMIN: &str = "/etc/kubernetes/admin.conf";
pub(super) const KUBELET: &str = "/etc/kubernetes/kubelet.conf";
const ENCRYPTION_IDENTITY: &str = "/var/lib/kubexm/done/encryption-identity";
const KUBELET_CONFIG: &str = "/var/lib/kubelet/config.yaml";
const KUBELET_INSTANCE: &str = "/var/lib/kubelet/instance-config.yaml";
const KUBELET_FLAGS: &str = "/var/lib/kubelet/kubeadm-flags.env";
const KUBELET_UNIT: &str = "/etc/systemd/system/kubelet.service";
const ETCD_POD: &str = "/etc/kubernetes/manifests/etcd.yaml";
const ETCD_MEMBER: &str = "/etc/kubexm/etcd-member/etcd.env";

/// How kubexm has installed the programs of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Kubeadm,
    Systemd,
}

impl Kind {
    /// Returns `None` for a host that is not a node: its files belong to another Kubernetes.
    fn of(host: &Printed) -> Option<Self> {
        if host.has(KUBEADM_INIT) || host.has(KUBEADM_JOIN) {
            Some(Self::Kubeadm)
        } else {
            host.has(KUBERNETES_NODE).then_some(Self::Systemd)
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Kubeadm => "kubeadm",
            Self::Systemd => "systemd",
        }
    }

    fn api_server(self) -> &'static str {
        match self {
            Self::Kubeadm => "/etc/kubernetes/manifests/kube-apiserver.yaml",
            Self::Systemd => "/etc/systemd/system/kube-apiserver.service",
        }
    }

    fn controller_manager(self) -> &'static str {
        match self {
            Self::Kubeadm => "/etc/kubernetes/manifests/kube-controller-manager.yaml",
            Self::Systemd => "/etc/systemd/system/kube-controller-manager.service",
        }
    }
}

#[derive(Default)]
struct Settings(BTreeMap<Setting, BTreeSet<String>>);

impl Settings {
    /// Adds a value. One that is not known is empty, or `None`.
    fn add(&mut self, setting: Setting, value: impl Into<Option<String>>) {
        if let Some(value) = value.into().filter(|value| !value.is_empty()) {
            self.0.entry(setting).or_default().insert(value);
        }
    }
}

/// Returns the settings; empty for a host that is not installed.
pub(super) fn settings(host: &Printed) -> BTreeMap<Setting, BTreeSet<String>> {
    let mut found = Settings::default();
    let kind = Kind::of(host);
    if let Some(kind) = kind {
        of_node(&mut found, host, kind);
        network(&mut found, host);
        if let Some(api_server) = host.file(kind.api_server()) {
            of_control_plane(&mut found, host, kind, api_server);
        }
    }
    etcd(&mut found, host, kind);
    balancers(&mut found, host, kind.is_some());
    found.0
}

fn of_node(found: &mut Settings, host: &Printed, kind: Kind) {
    found.add(Setting::KubernetesType, kind.name().to_owned());
    let in_file = |path: &str, name: &str| host.file(path).and_then(|text| field(text, name));
    found.add(Setting::DnsDomain, in_file(KUBELET_CONFIG, "clusterDomain"));
    let of_kubeadm = |name: &str| {
        host.file(KUBELET_FLAGS)
            .and_then(|text| argument(text, name))
    };
    let socket = "containerRuntimeEndpoint";
    let socket = of_kubeadm("container-runtime-endpoint")
        .or_else(|| in_file(KUBELET_INSTANCE, socket))
        .or_else(|| in_file(KUBELET_CONFIG, socket));
    found.add(Setting::Runtime, socket);
    let server = |path: &str| host.kubeconfig(path).and_then(|text| field(text, "server"));
    // The kubelet of a control plane can use its own API server.
    let is_worker = host.file(kind.api_server()).is_none();
    let server = server(ADMIN).or_else(|| server(KUBELET).filter(|_| is_worker));
    let server = server.map(|url| url.strip_prefix("https://").unwrap_or(&url).to_owned());
    found.add(Setting::Endpoint, server);
    let unit = host.file(KUBELET_UNIT);
    let name = unit
        .and_then(|unit| flag(unit, "hostname-override"))
        .or_else(|| of_kubeadm("hostname-override"));
    // Without the flag, the kubelet uses the name of the host. An install that failed may not have written its unit.
    let is_complete = kind == Kind::Kubeadm || unit.is_some();
    let name = name.or_else(|| is_complete.then(|| host.hostname.to_ascii_lowercase()));
    found.add(Setting::NodeName, name);
}

fn balancers(found: &mut Settings, host: &Printed, is_node: bool) {
    for own in load_balancer::all_properties() {
        let pod = own.pod.map(|pod| {
            let file = if is_node { pod.on_node } else { pod.before };
            (pod.name, file)
        });
        let unit = own.found_by.map(|file| (own.program, file));
        for (name, file) in unit.into_iter().chain(pod) {
            if host.has(file) {
                found.add(Setting::Balancer, name.to_owned());
            }
        }
    }
}

fn network(found: &mut Settings, host: &Printed) {
    for kind in PluginKind::ALL {
        let Some(file) = kind.properties().found_by.filter(|file| host.has(file)) else {
            continue;
        };
        found.add(Setting::Network, kind.name().to_owned());
        let lines = host.file(file).unwrap_or_default();
        match kind {
            PluginKind::Flannel => found.add(Setting::FlannelBackend, flannel_backend(lines)),
            PluginKind::Calico => {
                let encapsulation = calico_encapsulation(lines).to_owned();
                found.add(Setting::CalicoEncapsulation, encapsulation);
            }
            PluginKind::Cilium => found.add(Setting::CiliumRouting, cilium_routing(lines)),
            PluginKind::Bridge | PluginKind::None => {}
        }
    }
}

fn of_control_plane(found: &mut Settings, host: &Printed, kind: Kind, api_server: &str) {
    found.add(Setting::ControlPlane, "yes".to_owned());
    let version = match kind {
        Kind::Kubeadm => image_version(api_server),
        Kind::Systemd => host.version("kube-apiserver", "Kubernetes v"),
    };
    found.add(Setting::Version, version);
    for (setting, name) in [
        (Setting::ServiceCidr, "service-cluster-ip-range"),
        (Setting::AdvertiseAddress, "advertise-address"),
        (Setting::ApiServerPort, "secure-port"),
        (Setting::EtcdServers, "etcd-servers"),
    ] {
        found.add(setting, flag(api_server, name));
    }
    if flag(api_server, "encryption-provider-config").is_some() {
        found.add(Setting::Encryption, "encrypted".to_owned());
    }
    if host.has(ENCRYPTION_IDENTITY) {
        found.add(Setting::Encryption, "plain".to_owned());
    }
    let manager = host.file(kind.controller_manager()).unwrap_or_default();
    found.add(Setting::PodCidr, flag(manager, "cluster-cidr"));
    found.add(Setting::ClusterName, flag(manager, "cluster-name"));
}

fn etcd(found: &mut Settings, host: &Printed, kind: Option<Kind>) {
    if let (Some(pod), Some(Kind::Kubeadm)) = (host.file(ETCD_POD), kind) {
        found.add(Setting::Etcd, "kubeadm".to_owned());
        found.add(Setting::EtcdDataDir, flag(pod, "data-dir"));
    }
    if let Some(member) = host.file(ETCD_MEMBER) {
        found.add(Setting::Etcd, "systemd".to_owned());
        let mut lines = member.lines();
        let data = lines.find_map(|line| line.strip_prefix("ETCD_DATA_DIR="));
        found.add(Setting::EtcdDataDir, data.map(without_quotes));
        found.add(Setting::EtcdVersion, host.version("etcd", "etcd Version:"));
    }
}

/// Returns the value of a flag in a static pod or in a unit. Either may have quotes around flag and value; a unit has other
/// flags in the same line.
fn flag(text: &str, name: &str) -> Option<String> {
    let flag = format!("--{name}=");
    let (line, at) = text
        .lines()
        .find_map(|line| Some((line, line.find(&flag)?)))?;
    let value = line.get(at + flag.len()..)?;
    let end = match line.get(..at)?.chars().next_back() {
        Some(quote @ ('"' | '\'')) => value.find(quote),
        _ if line.trim_start_matches(' ').starts_with("- ") => None,
        _ => value.find([' ', '\\']),
    };
    some(&value[..end.unwrap_or(value.len())])
}

/// Returns the value of a flag in the file in which kubeadm writes all flags of the kubelet between the same quotes.
fn argument(text: &str, name: &str) -> Option<String> {
    let flag = format!("--{name}=");
    let (_, value) = text.lines().find_map(|line| line.rsplit_once(&flag))?;
    some(value.split([' ', '"']).next()?)
}

/// Returns the value of the first field with this name in the lines of a YAML file.
pub(super) fn field(text: &str, name: &str) -> Option<String> {
    let value = text.lines().find_map(|line| {
        let name = line.trim_start_matches([' ', '"']).strip_prefix(name)?;
        name.trim_start_matches('"').strip_prefix(':')
    })?;
    some(&without_quotes(value.trim_start_matches(' ')))
}

fn without_quotes(value: &str) -> String {
    value.replace(['"', '\''], "")
}

fn some(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}

/// Returns the version of the API server's image in its static pod.
fn image_version(pod: &str) -> Option<String> {
    let mut lines = pod.lines().map(|line| line.trim_start_matches(' '));
    let image =
        lines.find(|line| line.starts_with("image: ") && line.contains("kube-apiserver:v"))?;
    let (_, version) = image.rsplit_once(":v")?;
    some(version.split(['@', '"']).next()?)
}

fn flannel_backend(lines: &str) -> Option<String> {
    let mut lines = lines.lines();
    let (_, value) = lines.find_map(|line| line.rsplit_once("\"Type\": \""))?;
    some(value.split('"').next()?)
}

/// Returns how Calico carries packets between nodes. The line after the name of a variable has its value.
fn calico_encapsulation(lines: &str) -> &'static str {
    let is_always = |variable: &str| {
        let pairs = lines.lines().zip(lines.lines().skip(1));
        let named = pairs.filter(|(name, _)| name.contains(variable));
        named
            .last()
            .is_some_and(|(_, value)| value.contains("Always"))
    };
    if is_always("CALICO_IPV4POOL_VXLAN") {
        "vxlan"
    } else if is_always("CALICO_IPV4POOL_IPIP") {
        "ipip"
    } else {
        "none"
    }
}

fn cilium_routing(lines: &str) -> Option<String> {
    let mode = field(lines, "routing-mode");
    mode.filter(|mode| mode == "native")
        .or_else(|| field(lines, "tunnel-protocol"))
}

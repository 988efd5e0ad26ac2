//! Fields of configuration files that kubexm writes, and that `extraConfig` therefore does not accept.

use crate::reader::Fields;
use crate::yaml::Value;

/// A field that kubexm writes: the names on the way to it, separated by points, and what the user sets instead.
pub(super) type Own = (&'static str, &'static str);

/// The hint of a field for which the cluster file has no other one.
const REMOVE: &str = "remove the field: the cluster does not work with another value";

/// Of KubeletConfiguration.
pub(super) const KUBELET: [Own; 8] = [
    ("apiVersion", REMOVE),
    ("kind", REMOVE),
    ("authentication.x509.clientCAFile", REMOVE),
    ("clusterDNS", "use spec.dns and network.serviceCIDR"),
    ("clusterDomain", "use kubernetes.dnsDomain"),
    ("containerRuntimeEndpoint", "use containerRuntime.type"),
    (
        "registerWithTaints",
        "use taints of the hosts, or taints of spec.defaults",
    ),
    ("staticPodPath", REMOVE),
];
/// Of KubeProxyConfiguration.
pub(super) const KUBE_PROXY: [Own; 6] = [
    ("apiVersion", REMOVE),
    ("kind", REMOVE),
    ("clientConnection.kubeconfig", REMOVE),
    ("clusterCIDR", "use network.podCIDR"),
    ("hostnameOverride", "name the host in spec.hosts"),
    ("mode", "use kubernetes.kubeProxy.mode"),
];
/// Of KubeSchedulerConfiguration.
pub(super) const SCHEDULER: [Own; 3] = [
    ("apiVersion", REMOVE),
    ("kind", REMOVE),
    ("clientConnection.kubeconfig", REMOVE),
];

/// Refuses fields of a document that kubexm writes.
pub(super) fn refuse_all(fields: &Fields<'_>, document: &'static str, own: &[Own]) {
    for (path, hint) in own {
        let names: Vec<&str> = path.split('.').collect();
        refuse(fields, document, &names, hint);
    }
}

/// Refuses a field of a document that kubexm writes. A value in the place of a section is refused as well, because it
/// would replace the section.
pub(super) fn refuse(fields: &Fields<'_>, document: &'static str, names: &[&str], hint: &str) {
    let Some(mut node) = fields.get(document) else {
        return;
    };
    let start = fields.path(document);
    let mut place = start.clone();
    for (at, name) in names.iter().enumerate() {
        let Some((key, value)) = node.entry(name) else {
            if !matches!(node.value, Value::Map(_)) && place != start {
                let message = "replaces fields that kubexm writes";
                let hint = "write a mapping with the fields to change, or remove the field";
                fields.reader().problem(node, &place, message, Some(hint));
            }
            return;
        };
        place = format!("{place}.{name}");
        node = value;
        if at + 1 == names.len() {
            let message = "is set by kubexm";
            fields.reader().problem(key, &place, message, Some(hint));
        }
    }
}

//! Fields of configuration files that kubexm writes, and that `extraConfig` therefore does not accept.

use crate::cluster::IPVS_SCHEDULERS;
use crate::reader::Fields;
use crate::yaml::{Node, Value};

/// A field that kubexm writes: the names on the way to it, separated by points, and what the user sets instead.
pub(super) type Own = (&'static str, &'static str);

/// A field with the values with which the cluster works, and what the user does instead of writing another one.
pub(super) type Fixed = (&'static str, &'static [&'static str], &'static str);

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
/// Of KubeletConfiguration: fields that kubexm writes or whose default it relies on.
pub(super) const VALUES_OF_KUBELET: [Fixed; 8] = [
    (
        "address",
        &["0.0.0.0", "::"],
        "remove the field: the API server connects to internalAddress of each host",
    ),
    ("authentication.anonymous.enabled", &["false"], REMOVE),
    ("authorization.mode", &["Webhook"], REMOVE),
    ("enableServer", &["true"], REMOVE),
    (
        "podLogsDir",
        &["/var/log/pods"],
        "remove the field, and mount a disk at /var/log/pods if the logs need one",
    ),
    (
        "port",
        &["10250"],
        "remove the field: the checks of firewalls and of other programs are about this port",
    ),
    (
        "registerNode",
        &["true"],
        "remove the host from spec.hosts if it is not a node of the cluster",
    ),
    ("rotateCertificates", &["true"], REMOVE),
];
/// Of KubeProxyConfiguration: nodes load the module of the scheduler.
pub(super) const VALUES_OF_KUBE_PROXY: [Fixed; 1] = [(
    "ipvs.scheduler",
    &IPVS_SCHEDULERS,
    "name a scheduler of the kernel, as in lc",
)];
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
    if let Some((key, _, place)) = find(fields, document, names) {
        let message = "is set by kubexm";
        fields.reader().problem(key, &place, message, Some(hint));
    }
}

/// Refuses values of a document with which the cluster does not work.
pub(super) fn refuse_values(fields: &Fields<'_>, document: &'static str, fixed: &[Fixed]) {
    for (path, accepted, hint) in fixed {
        let names: Vec<&str> = path.split('.').collect();
        let Some((_, value, place)) = find(fields, document, &names) else {
            continue;
        };
        if !is_accepted(value, accepted) {
            let message = format!("expected {}", accepted.join(" or "));
            fields.reader().problem(value, &place, message, Some(hint));
        }
    }
}

/// Refuses a patch of a KubeletConfiguration that changes what [`KUBELET`] and [`VALUES_OF_KUBELET`] name. A patch may
/// repeat the kind of what it changes.
pub(super) fn refuse_in_patch(patch: &Fields<'_>) {
    const PATCH: &str = "patch";
    let own = KUBELET.iter();
    let own = own.filter(|(path, _)| !matches!(*path, "apiVersion" | "kind"));
    match patch.get(PATCH).map(|change| &change.value) {
        Some(Value::Map(_)) => {
            for (path, hint) in own {
                let names: Vec<&str> = path.split('.').collect();
                refuse(patch, PATCH, &names, hint);
            }
            refuse_values(patch, PATCH, &VALUES_OF_KUBELET);
        }
        Some(Value::List(operations)) => {
            let own = own.map(|(path, hint)| (*path, &[][..], *hint));
            for (at, operation) in operations.iter().enumerate() {
                let mut fixed = own.clone().chain(VALUES_OF_KUBELET);
                if let Some((field, _, hint)) = fixed.find(|fixed| changes(operation, fixed)) {
                    let place = format!("{}[{at}]", patch.path(PATCH));
                    let message = format!("changes {field}, which kubexm decides");
                    let reader = patch.reader();
                    reader.problem(operation, &place, message, Some(hint));
                }
            }
        }
        _ => {}
    }
}

/// Returns whether an operation of a JSON patch (RFC 6902) changes a field, what the field is in, or what is in the field.
fn changes(operation: &Node, (field, accepted, _): &Fixed) -> bool {
    let text = |name: &str| match operation.entry(name).map(|(_, node)| &node.value) {
        Some(Value::Text(text)) => text.trim_start_matches('/').replace('/', "."),
        _ => String::new(),
    };
    let (changed, verb) = (text("path"), text("op"));
    let is_part = |whole: &str, part: &str| {
        part.strip_prefix(whole)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let concerns = is_part(field, &changed) || is_part(&changed, field);
    let value = operation.entry("value").map(|(_, value)| value);
    let keeps = value.is_some_and(|value| changed == *field && is_accepted(value, accepted));
    concerns && verb != "test" && !keeps
}

fn is_accepted(value: &Node, accepted: &[&str]) -> bool {
    let text = match &value.value {
        Value::Text(text) => Some(text.clone()),
        _ => value.scalar(),
    };
    text.is_some_and(|text| accepted.contains(&text.as_str()))
}

/// Returns the key, the value and the path of a field of a document. A value in the place of a section is a problem.
fn find<'a>(
    fields: &Fields<'a>,
    document: &'static str,
    names: &[&str],
) -> Option<(&'a Node, &'a Node, String)> {
    let root = fields.get(document)?;
    let mut found = (root, root);
    let start = fields.path(document);
    let mut place = start.clone();
    for name in names {
        let node = found.1;
        let Some(entry) = node.entry(name) else {
            if !matches!(node.value, Value::Map(_)) && place != start {
                let message = "replaces fields that kubexm writes";
                let hint = "write a mapping with the fields to change, or remove the field";
                fields.reader().problem(node, &place, message, Some(hint));
            }
            return None;
        };
        place = format!("{place}.{name}");
        found = entry;
    }
    Some((found.0, found.1, place))
}

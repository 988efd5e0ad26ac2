//! Names of fields in the owner's first documents and in files of other tools. kubexm accepts them with a notice.

use crate::reader::Reader;
use crate::yaml::{Node, Value};

/// A field and the field that it means, each with the names from `spec` on.
type Name = (&'static [&'static str], &'static [&'static str]);

const FIELDS: [Name; 11] = [
    (
        &["kubernetes", "proxyMode"],
        &["kubernetes", "kubeProxy", "mode"],
    ),
    (&["network", "kubePodsCIDR"], &["network", "podCIDR"]),
    (&["network", "kubeServiceCIDR"], &["network", "serviceCIDR"]),
    (&["etcd", "local", "dataDir"], &["etcd", "dataDir"]),
    (&["etcd", "local", "extraArgs"], &["etcd", "extraArgs"]),
    (&["etcd", "local", "serverCertSANs"], &["etcd", "certSANs"]),
    (&["etcd", "local", "peerCertSANs"], &["etcd", "certSANs"]),
    (&["dns", "upstreamDNSServers"], &["dns", "upstreams"]),
    (&["dns", "externalZones"], &["dns", "zones"]),
    (
        &["highAvailability", "external", "type"],
        &["highAvailability", "type"],
    ),
    (
        &["highAvailability", "internal", "type"],
        &["highAvailability", "type"],
    ),
];
/// Fields of each zone.
const OF_ZONES: [(&str, &str); 3] = [
    ("zones", "names"),
    ("nameservers", "servers"),
    ("cache", "cacheSeconds"),
];

/// Moves values to the fields that their names mean.
pub(super) fn accept(reader: &Reader, root: &mut Node) {
    let Some(spec) = root.field("spec") else {
        return;
    };
    for (names, meant) in FIELDS {
        let Some(value) = take(spec, names) else {
            continue;
        };
        let (path, other) = (names.join("."), meant.join("."));
        notice(reader, &value, &format!("spec.{path}"), &other);
        put(reader, spec, &format!("spec.{other}"), meant, value);
    }
    let zones = spec.field("dns").and_then(|dns| dns.field("zones"));
    let Some(Value::List(zones)) = zones.map(|zones| &mut zones.value) else {
        return;
    };
    for (at, zone) in zones.iter_mut().enumerate() {
        for (name, meant) in OF_ZONES {
            let Some(value) = take(zone, &[name]) else {
                continue;
            };
            let zone_path = format!("spec.dns.zones[{at}]");
            notice(reader, &value, &format!("{zone_path}.{name}"), meant);
            put(
                reader,
                zone,
                &format!("{zone_path}.{meant}"),
                &[meant],
                value,
            );
        }
    }
}

fn notice(reader: &Reader, value: &Node, path: &str, meant: &str) {
    let message = format!("is accepted for {meant}");
    reader.notice(value, path, message, &format!("write {meant}"));
}

/// Removes a value, and each mapping on the way that has nothing else.
fn take(node: &mut Node, names: &[&str]) -> Option<Node> {
    let [name, rest @ ..] = names else {
        return None;
    };
    let Value::Map(map) = &mut node.value else {
        return None;
    };
    let at = map.iter().position(|(key, _)| key.is_text(name))?;
    if rest.is_empty() {
        return Some(map.remove(at).1);
    }
    let (_, inner) = map.get_mut(at)?;
    let value = take(inner, rest)?;
    if matches!(&inner.value, Value::Map(left) if left.is_empty()) {
        map.remove(at);
    }
    Some(value)
}

/// Adds a value at names below a node; `path` is the whole path for messages. Two lists for one field are one list; two other
/// values are a problem.
fn put(reader: &Reader, node: &mut Node, path: &str, names: &[&str], mut value: Node) {
    let [name, rest @ ..] = names else {
        return;
    };
    // A section without a value is an empty one.
    if matches!(node.value, Value::Null) {
        node.value = Value::Map(Vec::new());
    }
    if node.entry(name).is_none()
        && let Value::Map(map) = &mut node.value
    {
        let at_value = |inner| Node {
            line: value.line,
            column: value.column,
            value: inner,
            written: None,
        };
        let key = at_value(Value::Text((*name).to_owned()));
        map.push((key, at_value(Value::Null)));
    }
    // The reader reports another value in the place of a section.
    let Some(present) = node.field(name) else {
        return;
    };
    if !rest.is_empty() {
        return put(reader, present, path, rest, value);
    }
    match (&mut present.value, &mut value.value) {
        (Value::Null, _) => *present = value,
        (_, Value::Null) => {}
        (Value::List(items), Value::List(more)) => items.append(more),
        _ => {
            let hint = "remove one of the two";
            let message = "the file has this field by two names";
            reader.problem(present, path, message, Some(hint));
        }
    }
}

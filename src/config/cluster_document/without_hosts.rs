//! Reads a cluster file as if some of its hosts were not there.

use std::collections::BTreeSet;
use std::path::Path;

use super::{START, read_root};
use crate::cluster::Cluster;
use crate::host_range;
use crate::problem::Problems;
use crate::yaml::{self, Node, Value};
use kubexm_types::{HostName, Version};

/// A cluster file without some of its hosts.
#[derive(Debug, Clone)]
pub struct WithoutHosts {
    /// The cluster of the other hosts.
    pub cluster: Cluster,
    /// Where the file names the hosts, in the order of the file.
    pub mentions: Vec<HostMention>,
}

/// A place of a cluster file that names a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostMention {
    /// The line, from 1.
    pub line: u64,
    /// The field, as in `spec.roleGroups.worker`.
    pub path: String,
    /// What the field has there: a name or a range of names.
    pub text: String,
    /// What remains of a range.
    pub rest: Vec<HostName>,
}

/// Reads and checks a cluster file without these hosts, for a bundle with these Kubernetes versions.
///
/// # Errors
/// All problems of the file without them.
pub fn load_cluster_without(
    path: &Path,
    offered: &[Version],
    hosts: &BTreeSet<HostName>,
) -> Result<WithoutHosts, Problems> {
    let text = crate::read_text(path, START)?;
    parse(&path.display().to_string(), &text, offered, hosts)
}

fn parse(
    file: &str,
    text: &str,
    offered: &[Version],
    hosts: &BTreeSet<HostName>,
) -> Result<WithoutHosts, Problems> {
    let mut root = yaml::parse(file, text)?;
    let mut mentions = Vec::new();
    remove(&mut root, "", hosts, &mut mentions);
    mentions.sort_by_key(|mention| mention.line);
    let cluster = read_root(file, &root, Some(offered))?;
    Ok(WithoutHosts { cluster, mentions })
}

/// Removes hosts from what names them: the list of hosts, roles, the hosts of a patch, and settings by host.
fn remove(node: &mut Node, path: &str, hosts: &BTreeSet<HostName>, found: &mut Vec<HostMention>) {
    match &mut node.value {
        Value::Map(entries) if BY_HOST.contains(&path) => entries.retain(|(key, _)| {
            let Value::Text(name) = &key.value else {
                return true;
            };
            let is_removed = hosts.iter().any(|host| host.as_str() == name);
            if is_removed {
                found.push(HostMention {
                    line: key.line,
                    path: path.to_owned(),
                    text: name.clone(),
                    rest: Vec::new(),
                });
            }
            !is_removed
        }),
        Value::Map(entries) => {
            for (key, value) in entries {
                if let Value::Text(name) = &key.value {
                    let path = match path {
                        "" => name.clone(),
                        _ => format!("{path}.{name}"),
                    };
                    remove(value, &path, hosts, found);
                }
            }
        }
        Value::List(items) if path == "spec.hosts" => items.retain(|item| {
            let name = match item.entry("name") {
                Some((
                    _,
                    Node {
                        value: Value::Text(name),
                        ..
                    },
                )) => name,
                _ => return true,
            };
            let is_removed = hosts.iter().any(|host| host.as_str() == name);
            if is_removed {
                found.push(HostMention {
                    line: item.line,
                    path: path.to_owned(),
                    text: name.clone(),
                    rest: Vec::new(),
                });
            }
            !is_removed
        }),
        Value::List(items) if is_list_of_names(path) => {
            let all = std::mem::take(items);
            for item in all {
                items.extend(without(item, path, hosts, found));
            }
        }
        Value::List(items) => items.retain_mut(|item| {
            let had_hosts = has_hosts(item);
            remove(item, path, hosts, found);
            // Without hosts, a patch would be for all of them.
            path != PATCHES || !had_hosts || has_hosts(item)
        }),
        _ => {}
    }
}

const PATCHES: &str = "spec.kubernetes.kubeadm.patches";
/// Mappings whose keys are hosts.
const BY_HOST: [&str; 2] = [
    "spec.highAvailability.interfaces",
    "spec.highAvailability.keepalived.priorities",
];

fn is_list_of_names(path: &str) -> bool {
    path.starts_with("spec.roleGroups.") || path.strip_suffix(".hosts") == Some(PATCHES)
}

/// Returns whether a patch names hosts.
fn has_hosts(patch: &Node) -> bool {
    let hosts = patch.entry("hosts").map(|(_, hosts)| &hosts.value);
    matches!(hosts, Some(Value::List(hosts)) if !hosts.is_empty())
}

/// Returns what remains of a name or a range of names.
fn without(
    item: Node,
    path: &str,
    hosts: &BTreeSet<HostName>,
    found: &mut Vec<HostMention>,
) -> Vec<Node> {
    let Value::Text(text) = &item.value else {
        return vec![item];
    };
    let Ok(names) = host_range::expand(text) else {
        return vec![item];
    };
    let (removed, rest): (Vec<HostName>, Vec<HostName>) =
        names.into_iter().partition(|name| hosts.contains(name));
    if removed.is_empty() {
        return vec![item];
    }
    found.push(HostMention {
        line: item.line,
        path: path.to_owned(),
        text: text.clone(),
        rest: rest.clone(),
    });
    let nodes = rest.into_iter().map(|name| Node {
        value: Value::Text(name.to_string()),
        ..item.clone()
    });
    nodes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {name: example}
spec:
  hosts:
    - {name: node1, address: 192.0.2.11}
    - name: node2
      address: 192.0.2.12
    - {name: node3, address: 192.0.2.13}
  roleGroups:
    control-plane: [node1]
    worker: ['node[1:3]']
    registry:
      - node1
      - node2
  kubernetes:
    version: 1.36.3
    kubeadm:
      patches: [{target: kubeletconfiguration, hosts: [node2, node3], patch: {maxPods: 50}}]
";

    fn without(names: &[&str]) -> Result<WithoutHosts, Problems> {
        let hosts = names.iter().map(|name| name.parse().unwrap()).collect();
        let offered = [Version::new(1, 36, 3)];
        parse("cluster.yaml", TEXT, &offered, &hosts)
    }

    #[test]
    fn host_disappears_from_hosts_roles_and_patches() {
        let WithoutHosts { cluster, mentions } = without(&["node2"]).unwrap();
        assert_eq!(cluster.hosts.len(), 2);
        let names = |names: &[HostName]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(&cluster.roles.worker), ["node1", "node3"]);
        assert_eq!(names(&cluster.roles.registry), ["node1"]);
        assert_eq!(
            names(&cluster.kubernetes.kubeadm.patches[0].hosts),
            ["node3"]
        );
        let places = mentions.iter().map(|mention| {
            let rest = names(&mention.rest).join(",");
            format!("{} {} {} {rest}", mention.line, mention.path, mention.text)
        });
        assert_eq!(
            places.collect::<Vec<_>>(),
            [
                "7 spec.hosts node2 ",
                "12 spec.roleGroups.worker node[1:3] node1,node3",
                "15 spec.roleGroups.registry node2 ",
                "19 spec.kubernetes.kubeadm.patches.hosts node2 ",
            ]
        );
    }

    #[test]
    fn settings_by_host_disappear_with_it() {
        let text = TEXT.replace("control-plane: [node1]", "control-plane: ['node[1:3]']")
            + "  controlPlaneEndpoint: {address: 192.0.2.99, port: 8443}
  highAvailability:
    type: keepalived-haproxy
    interfaces: {node1: bond0, node3: bond1}
    keepalived: {priorities: {node1: 150, node3: 120}}
";
        let hosts = BTreeSet::from(["node3".parse().unwrap()]);
        let read = parse("cluster.yaml", &text, &[Version::new(1, 36, 3)], &hosts).unwrap();
        let left = &read.cluster.high_availability;
        let priorities = left.keepalived.priorities.keys();
        let names = left.interfaces.keys().chain(priorities);
        assert_eq!(
            names.map(HostName::as_str).collect::<Vec<_>>(),
            ["node1"; 2]
        );
        let is_by_host = |mention: &&HostMention| BY_HOST.contains(&mention.path.as_str());
        let mentions = read.mentions.iter().filter(is_by_host);
        let found: Vec<_> = mentions
            .map(|mention| (mention.line, mention.text.as_str()))
            .collect();
        assert_eq!(found, [(23, "node3"), (24, "node3")]);
    }

    /// A patch without hosts is for all of them.
    #[test]
    fn patch_of_one_host_disappears_with_it() {
        let text = TEXT.replace("hosts: [node2, node3], patch", "hosts: [node3], patch");
        let hosts = BTreeSet::from(["node3".parse().unwrap()]);
        let read = parse("cluster.yaml", &text, &[Version::new(1, 36, 3)], &hosts);
        assert!(read.unwrap().cluster.kubernetes.kubeadm.patches.is_empty());
    }

    #[test]
    fn file_without_the_hosts_must_be_valid() {
        let refused = without(&["node1"]).unwrap_err().to_string();
        assert!(refused.contains("control-plane"), "{refused}");
        assert!(without(&[]).unwrap().mentions.is_empty());
    }
}

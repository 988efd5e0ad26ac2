//! Parses what the script `status/nodes.sh` prints: the nodes as the API server sees them.

use std::collections::BTreeMap;

use serde::Deserialize;

use kubexm_types::Version;
use kubexm_types::untrusted::Untrusted;

/// The nodes by name.
pub(super) type Nodes = BTreeMap<String, Node>;

/// A node by its object in the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) is_cordoned: bool,
    pub(super) info: Info,
    pub(super) conditions: Vec<Condition>,
}

/// `nodeInfo` in the status of a node. A value that the kubelet did not report is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Info {
    pub(super) kubelet_version: String,
    pub(super) container_runtime_version: String,
    pub(super) kernel_version: String,
    pub(super) os_image: String,
}

/// A condition in the status of a node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// `True`, `False` or `Unknown`.
    pub(super) status: String,
    #[serde(default)]
    pub(super) message: String,
}

/// Why the nodes cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NodesError {
    #[error("line {number} of the nodes is '{line}'")]
    Line { number: usize, line: String },
    #[error("the nodes are truncated: the end is missing")]
    Truncated,
}

impl Node {
    /// Returns the condition of a kind.
    pub(super) fn condition(&self, kind: &str) -> Option<&Condition> {
        let mut conditions = self.conditions.iter();
        conditions.find(|condition| condition.kind == kind)
    }

    /// Returns the version of the kubelet that reports the status.
    pub(super) fn kubelet(&self) -> Option<Version> {
        self.info.kubelet_version.parse().ok()
    }
}

/// Parses the nodes.
///
/// # Errors
/// A line has another form, or the last one is missing.
pub(super) fn parse(text: &str) -> Result<Nodes, NodesError> {
    let mut nodes = Nodes::new();
    for (at, line) in text.lines().enumerate() {
        if line == "end" {
            return Ok(nodes);
        }
        let (name, node) = node(line).ok_or_else(|| NodesError::Line {
            number: at + 1,
            line: Untrusted::one_line(line, 200).to_string(),
        })?;
        nodes.insert(name, node);
    }
    Err(NodesError::Truncated)
}

fn node(line: &str) -> Option<(String, Node)> {
    let parts: Vec<&str> = line.split('\t').collect();
    let [name, cordoned, info, conditions] = parts.as_slice() else {
        return None;
    };
    // A node that has only been registered may have neither.
    let conditions = match *conditions {
        "" => Vec::new(),
        json => serde_json::from_str(json).ok()?,
    };
    let info = match *info {
        "" => Info::default(),
        json => serde_json::from_str(json).ok()?,
    };
    let is_cordoned = match *cordoned {
        "true" => true,
        "" | "false" => false,
        _ => return None,
    };
    let node = Node {
        is_cordoned,
        info,
        conditions,
    };
    (!name.is_empty()).then(|| ((*name).to_owned(), node))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_read() {
        let text = "node1\t\t{\"kubeletVersion\":\"v1.36.3\",\"containerRuntimeVersion\":\"containerd://2.3.7\"}\t\
                    [{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"KubeletReady\",\"message\":\"a\\tb\"}]\n\
                    node2\ttrue\t\t\nend\n";
        let nodes = parse(text).unwrap();
        assert_eq!(nodes["node1"].kubelet(), Some(Version::new(1, 36, 3)));
        assert_eq!(nodes["node1"].condition("Ready").unwrap().status, "True");
        assert!(!nodes["node1"].is_cordoned && nodes["node2"].is_cordoned);
        assert_eq!(nodes["node2"].kubelet(), None);
        assert_eq!(nodes["node2"].condition("Ready"), None);
    }

    #[test]
    fn other_lines_are_refused() {
        assert_eq!(parse("node2\ttrue\t\t\n"), Err(NodesError::Truncated));
        for line in [
            "",
            "node1",
            "\t\t\t",
            "node1\tperhaps\t\t",
            "node1\t\t[]\t{}",
            "a\t\t\t\t",
        ] {
            let error = parse(&format!("{line}\nend\n")).unwrap_err();
            assert!(
                matches!(error, NodesError::Line { number: 1, .. }),
                "{line}"
            );
        }
    }
}

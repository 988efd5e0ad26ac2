//! Nodes.

use kubexm_types::Version;
use serde::Deserialize;

use super::{Condition, Metadata, condition};

/// A node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Node {
    pub metadata: Metadata,
    pub spec: NodeSpec,
    pub status: NodeStatus,
}

/// The specification of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// Whether it is cordoned.
    pub unschedulable: bool,
    pub taints: Vec<Taint>,
    #[serde(rename = "podCIDRs")]
    pub pod_cidrs: Vec<String>,
}

/// A taint. The API identifies it by key and effect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Taint {
    pub key: String,
    pub effect: String,
    #[serde(default)]
    pub value: String,
}

/// The status of a node. One that has only been registered has neither information nor conditions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeStatus {
    pub node_info: NodeInfo,
    pub conditions: Vec<Condition>,
    pub addresses: Vec<NodeAddress>,
    /// The handlers of its container runtime, if kubelet and runtime report them.
    pub runtime_handlers: Vec<RuntimeHandler>,
}

/// A handler of a container runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RuntimeHandler {
    /// Empty for the default one.
    pub name: String,
}

/// What the kubelet reports about its host. A value that it did not report is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeInfo {
    pub kubelet_version: String,
    pub container_runtime_version: String,
    pub kernel_version: String,
    pub os_image: String,
}

/// An address in the status of a node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct NodeAddress {
    /// Such as `InternalIP` or `Hostname`.
    #[serde(rename = "type")]
    pub kind: String,
    pub address: String,
}

impl Node {
    /// Returns the condition of a kind.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        condition(&self.status.conditions, kind)
    }

    /// Returns the status of the condition `Ready`, which is `True`, `False` or `Unknown`; empty if there is none.
    pub fn ready(&self) -> &str {
        let ready = self.condition("Ready");
        ready.map_or("", |ready| ready.status.as_str())
    }

    /// Returns the version of the kubelet that reports the status.
    pub fn kubelet(&self) -> Option<Version> {
        self.status.node_info.kubelet_version.parse().ok()
    }
}

//! Persistent volumes, and where they are attached.

use serde::Deserialize;

use super::Metadata;

/// A persistent volume.
#[derive(Deserialize)]
pub struct PersistentVolume {
    pub metadata: Metadata,
    #[serde(default)]
    pub spec: PersistentVolumeSpec,
    #[serde(default)]
    status: PersistentVolumeStatus,
}

/// What a persistent volume is for.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolumeSpec {
    pub claim_ref: Option<Metadata>,
    node_affinity: NodeAffinity,
}

#[derive(Deserialize, Default)]
struct PersistentVolumeStatus {
    #[serde(default)]
    phase: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeAffinity {
    required: NodeSelector,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct NodeSelector {
    node_selector_terms: Vec<NodeSelectorTerm>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct NodeSelectorTerm {
    match_expressions: Vec<MatchExpression>,
}

#[derive(Deserialize)]
struct MatchExpression {
    key: String,
    operator: String,
    #[serde(default)]
    values: Vec<String>,
}

impl NodeSelectorTerm {
    /// Returns the only node that the term permits.
    fn node(&self) -> Option<&str> {
        self.match_expressions.iter().find_map(|expression| {
            let is_name = expression.key == "kubernetes.io/hostname" && expression.operator == "In";
            match &expression.values[..] {
                [node] if is_name => Some(node.as_str()),
                _ => None,
            }
        })
    }
}

impl PersistentVolume {
    /// Returns the node that has its data, if a pod has used it and no other node can have it.
    pub fn only_node(&self) -> Option<&str> {
        let mut terms = self.spec.node_affinity.required.node_selector_terms.iter();
        let node = terms.next()?.node()?;
        let is_used = self.status.phase != "Available";
        (is_used && terms.all(|term| term.node() == Some(node))).then_some(node)
    }
}

/// A VolumeAttachment.
#[derive(Deserialize)]
pub struct Attachment {
    pub metadata: Metadata,
    pub spec: AttachmentSpec,
}

/// Which volume is attached to which node.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttachmentSpec {
    pub node_name: String,
    #[serde(default)]
    pub source: AttachmentSource,
}

/// What is attached. An inline volume of a pod has no persistent volume.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct AttachmentSource {
    pub persistent_volume_name: Option<String>,
}

//! `spec.containerRuntime`.

use serde_json::Value;

use super::RuntimeKind;

/// The container runtime of every node.
#[derive(Debug, Clone)]
pub struct Runtime {
    pub kind: RuntimeKind,
    /// Settings that are merged into the main configuration file; may be an empty object.
    pub extra_config: Value,
}

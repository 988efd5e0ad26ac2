//! `spec.containerRuntime`.

use serde_json::Value;

use super::RuntimeKind;

/// What runs containers on every node.
#[derive(Debug, Clone)]
pub struct Runtime {
    /// Which one.
    pub kind: RuntimeKind,
    /// Settings merged into its main configuration file; an empty object where there are none.
    pub extra_config: Value,
}

//! A blob as OCI describes it.

use serde::{Deserialize, Serialize};

use kubexm_types::Digest;

/// A blob as OCI describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Descriptor {
    /// Media type.
    pub media_type: String,
    /// SHA-256 of the content.
    pub digest: Digest,
    /// Bytes.
    pub size: u64,
}

//! OCI descriptors
//! (<https://github.com/opencontainers/image-spec/blob/main/descriptor.md>).

use serde::{Deserialize, Serialize};

use kubexm_types::Digest;

/// An OCI descriptor of a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Descriptor {
    pub media_type: String,
    pub digest: Digest,
    /// Size in bytes.
    pub size: u64,
}

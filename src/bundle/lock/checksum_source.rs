//! Trust basis of digests.

use serde::{Deserialize, Serialize};
use url::Url;

/// Why the lock trusts the digest of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum ChecksumSource {
    /// A checksum file that the publisher serves.
    Published(Url),
    /// A digest in the catalog or in the bundle manifest.
    Pinned,
    /// The first download: the publisher does not serve a checksum.
    FirstSeen,
}

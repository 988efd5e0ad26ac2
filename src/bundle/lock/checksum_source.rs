//! Where the expected digest of a file comes from.

use serde::{Deserialize, Serialize};
use url::Url;

/// Where the expected digest of a file comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum ChecksumSource {
    /// A checksum file that the publisher serves.
    Published(Url),
    /// A digest written in the catalog.
    Pinned,
    /// The first build: the publisher serves no checksum, and the lock fixes what was downloaded then.
    FirstSeen,
}

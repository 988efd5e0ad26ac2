//! Trust basis of digests.

use serde::{Deserialize, Serialize};
use url::Url;

/// Why the lock trusts the digest of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum ChecksumSource {
    /// The publisher's checksum file, or the publisher's registry with the manifest of the tag.
    Published(Url),
    /// A digest in the catalog or in the bundle manifest.
    Pinned,
    /// The first download, from the publisher: it does not serve a checksum.
    FirstSeen,
    /// A mirror that the mirror file trusts for checksums. The URL is the publisher's, which the mirror
    /// answered for.
    Mirror(Url),
    /// Only the publisher's signature: the publisher could not be asked for its checksum.
    Signed,
    /// Unknown: the entry comes from a lock of version 1, which does not distinguish the publisher from a mirror.
    NotRecorded,
}

impl ChecksumSource {
    /// Returns the address of the statement, if there is one.
    pub fn url(&self) -> Option<&Url> {
        match self {
            Self::Published(url) | Self::Mirror(url) => Some(url),
            Self::Pinned | Self::FirstSeen | Self::Signed | Self::NotRecorded => None,
        }
    }

    /// Replaces a value of a lock of version 1 whose meaning that version does not state.
    pub(crate) fn forget(&mut self) {
        if matches!(self, Self::Published(_) | Self::FirstSeen) {
            *self = Self::NotRecorded;
        }
    }

    /// Whether locks of version 1 do not have this value.
    pub(crate) fn is_new(&self) -> bool {
        matches!(self, Self::Mirror(_) | Self::Signed | Self::NotRecorded)
    }
}

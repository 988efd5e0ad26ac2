//! Which server stated a fact about content.

use url::Url;

/// Which server stated a fact about content, such as its digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatedBy {
    /// The publisher.
    Publisher,
    /// A mirror, which the mirror file trusts for this.
    Mirror,
}

/// Returns who answered at `address` for a public URL.
pub(super) fn stated_by(url: &Url, address: &Url) -> StatedBy {
    if address == url {
        StatedBy::Publisher
    } else {
        StatedBy::Mirror
    }
}

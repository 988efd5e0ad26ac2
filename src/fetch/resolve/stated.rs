//! What publishers state about the content of files, before it is downloaded.

use super::Resolver;
use crate::artifacts;
use crate::http::{StatedBy, Wanted};
use crate::{FetchError, checksum};
use kubexm_bundle::lock::ChecksumSource;
use kubexm_catalog::Download;
use kubexm_types::{Digest, Message, ShownUrl};

/// Maximum size of a checksum file, in bytes.
const LARGEST_SUMS: usize = 1024 * 1024;

/// What the publisher states about the content of a file.
pub(super) enum Stated {
    /// The digest, and its trust basis.
    Digest(Digest, ChecksumSource),
    /// Nothing: it serves no checksum.
    Nothing,
    /// The publisher cannot be asked, with this error, but a signature can prove the content.
    OnlySignature(FetchError),
}

impl Stated {
    pub(super) fn digest(&self) -> Option<Digest> {
        match self {
            Self::Digest(digest, _) => Some(*digest),
            Self::Nothing | Self::OnlySignature(_) => None,
        }
    }
}

impl Resolver<'_> {
    /// Asks what the publisher states about the content of a file.
    pub(super) async fn stated(&self, file: &Download) -> Result<Stated, FetchError> {
        let Some(url) = &file.checksum else {
            return Ok(Stated::Nothing);
        };
        let (digest, by) = match self.published(file, url).await {
            Ok(stated) => stated,
            Err(error @ FetchError::Publisher { .. }) if self.policies.can_prove(&file.url) => {
                return Ok(Stated::OnlySignature(error));
            }
            Err(error) => return Err(error),
        };
        let url = url.clone();
        let checksum = match by {
            StatedBy::Publisher => ChecksumSource::Published(url),
            StatedBy::Mirror => ChecksumSource::Mirror(url),
        };
        Ok(Stated::Digest(digest, checksum))
    }

    /// Returns the digest of a file in the checksum file at `url`, and who stated it.
    pub(super) async fn published(
        &self,
        file: &Download,
        url: &url::Url,
    ) -> Result<(Digest, StatedBy), FetchError> {
        let label = format!("checksum of {}", file.file_name);
        let (text, by) = self.http.published(&label, url, LARGEST_SUMS).await?;
        let digest = checksum::find(&text, &file.file_name);
        let digest = digest.ok_or_else(|| FetchError::Content {
            what: label,
            reason: Message::new(format!(
                "{} has no SHA-256 of this file",
                ShownUrl::from(url)
            ))
            .hint("check that page; a mirror or proxy may serve another one"),
        })?;
        Ok((digest, by))
    }

    pub(super) async fn first_seen(
        &self,
        file: &Download,
        wanted: &Wanted,
    ) -> Result<(Digest, u64, ChecksumSource), FetchError> {
        let (digest, size, checksum) = artifacts::first_seen(self.http, wanted).await?;
        let source = match checksum {
            ChecksumSource::Mirror(_) => "a mirror, which the mirrors file trusts",
            _ => "the publisher itself",
        };
        self.http.events().note(format!(
            "{}: its publisher serves no checksum; the lock records the digest of the download from {source}: {digest}",
            file.file_name
        ));
        Ok((digest, size, checksum))
    }
}

/// Returns the error for an item that the lock accepts because of its signature, and that has none any more.
pub(super) fn only_signed(name: &dyn std::fmt::Display) -> FetchError {
    FetchError::Content {
        what: name.to_string(),
        reason: Message::new(
            "the lock trusts it only because of its signature, which is missing or not valid",
        )
        .hint(
            "restore the policy in spec.signatures of the bundle manifest, or remove the entry from the lock",
        ),
    }
}

/// Returns the note about an item that is accepted because of its signature, although its publisher cannot be
/// asked; with what is known about its version.
pub(super) fn only_by_signature(
    name: &dyn std::fmt::Display,
    signer: &dyn std::fmt::Display,
    version: &str,
    error: &FetchError,
) -> String {
    let cause = Message::from(error).text;
    format!("{name}: accepted because of the signature of {signer}; {version} ({cause})")
}

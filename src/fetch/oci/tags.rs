//! The digests of tags: the publisher's registry states them, or a mirror that the mirror file trusts.

use super::{Parts, Puller, manifest_path, manifest_request, origin};
use crate::FetchError;
use crate::answers::Answers;
use crate::http::StatedBy;
use kubexm_bundle::lock::{ChecksumSource, LockedImage};
use kubexm_config::mirrors::{Checksums, RegistryAddress};
use kubexm_types::{Digest, ImageRef};

impl Puller {
    /// Resolves an image whose publisher cannot be asked, so that only a signature can prove its content. The
    /// caller must verify one.
    pub(crate) async fn resolve_unproven(
        &self,
        name: &ImageRef,
        parts: Parts<'_>,
    ) -> Result<LockedImage, FetchError> {
        let found = self.manifest_of_any(name, None).await?;
        self.parts(name, parts, found, Some(ChecksumSource::Signed))
            .await
    }

    /// Returns the trust basis of the digest of a tag.
    pub(crate) fn checksum(
        &self,
        name: &ImageRef,
        by: StatedBy,
    ) -> Result<ChecksumSource, FetchError> {
        let place = self.place(&origin(name), &manifest_path(name, None)?)?;
        Ok(match by {
            StatedBy::Publisher => ChecksumSource::Published(place),
            StatedBy::Mirror => ChecksumSource::Mirror(place),
        })
    }

    /// Fetches the manifest of a tag, and returns who stated its digest. Only the image's own registry is asked,
    /// unless the mirror file trusts mirrors for checksums.
    pub(crate) async fn by_tag(
        &self,
        name: &ImageRef,
    ) -> Result<((Vec<u8>, Digest), StatedBy), FetchError> {
        if !self.is_mirrored(name) || self.http.mirrors().checksums == Checksums::Mirror {
            return self.tag_at_any(name).await;
        }
        let (label, origin) = (name.to_string(), origin(name));
        let access = self.access(&origin)?;
        let place = self.place(&origin, &manifest_path(name, None)?)?;
        let small = manifest_request(&label, &access);
        let bytes = self.http.ask_publisher(&small, &place).await?;
        let digest = self.http.cache().insert(&bytes)?;
        Ok(((bytes, digest), StatedBy::Publisher))
    }

    /// Fetches the manifest of a tag from the first registry that has it.
    async fn tag_at_any(
        &self,
        name: &ImageRef,
    ) -> Result<((Vec<u8>, Digest), StatedBy), FetchError> {
        let fetch = |address: RegistryAddress, tries| async move {
            let bytes = self.manifest_from(name, None, &address, tries).await?;
            Ok((bytes, is_own(name, &address)))
        };
        let (label, addresses) = (name.to_string(), self.addresses(name));
        let (bytes, is_own) = self.first_good(&label, addresses, fetch).await?;
        let digest = self.http.cache().insert(&bytes)?;
        let by = if is_own {
            StatedBy::Publisher
        } else {
            StatedBy::Mirror
        };
        Ok(((bytes, digest), by))
    }

    /// Fetches a manifest that proves itself, as signatures do: if the publisher cannot be asked for the tag, or does
    /// not have it, a mirror may answer. The publisher's other regions are mirrors, too. If a mirror answers that
    /// there is none, this counts although the publisher cannot be asked: the caller refuses content that needs a
    /// signature.
    ///
    /// # Errors
    /// [`FetchError::Refused`] with the status 404 if an address answered that there is none.
    pub(crate) async fn manifest_of_any(
        &self,
        name: &ImageRef,
        digest: Option<Digest>,
    ) -> Result<(Vec<u8>, Digest), FetchError> {
        let error = match self.manifest(name, digest).await {
            Err(error @ FetchError::Publisher { .. }) => error,
            Err(error) if error.is_missing() && digest.is_none() && self.is_mirrored(name) => error,
            result => return result,
        };
        let other = match self.tag_at_any(name).await {
            Ok((found, _)) => return Ok(found),
            Err(other) => other,
        };
        let mut answers = Answers::default();
        answers.failed(other);
        // The publisher's error counts as the last one.
        answers.failed(error);
        Err(answers.into_error(&name.to_string()))
    }

    /// Returns whether a mirror serves an image.
    fn is_mirrored(&self, name: &ImageRef) -> bool {
        let addresses = self.http.mirrors().for_image(name);
        addresses.is_some_and(|addresses| !addresses.iter().all(|address| is_own(name, address)))
    }
}

/// Whether an address is the image's own registry. Another protocol, such as HTTP without TLS, makes no difference.
fn is_own(name: &ImageRef, address: &RegistryAddress) -> bool {
    let own = origin(name);
    let host = |base: &str| base.split("://").nth(1).map(str::to_owned);
    host(&address.base) == host(&own.base) && address.repository == own.repository
}

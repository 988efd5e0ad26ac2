//! Referrers of an image
//! (<https://github.com/opencontainers/distribution-spec/blob/main/spec.md#listing-referrers>).

use std::collections::BTreeSet;

use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use url::Url;

use super::manifest::{INDEX_TYPES, LARGEST_MANIFEST};
use super::{Puller, origin, parse};
use crate::FetchError;
use crate::answers::Answers;
use crate::http::Small;
use crate::retry::TRIES;
use kubexm_bundle::lock::{Descriptor, LockedImage};
use kubexm_config::mirrors::RegistryAddress;
use kubexm_sigstore::Part;
use kubexm_sigstore::referrer::{BUNDLE_TYPE, listed};

/// Maximum number of pages of a registry's list.
const MAX_PAGES: usize = 8;

impl Puller {
    /// Returns the manifests that may be Sigstore bundles of an image: from the registry's referrers API,
    /// or, if that returns none, from the index under the referrers tag.
    ///
    /// # Errors
    /// The request fails, or the response is not an index.
    pub async fn bundles_of(&self, image: &LockedImage) -> Result<Vec<Descriptor>, FetchError> {
        let mut found = Vec::new();
        let mut answers = Answers::default();
        let addresses = self.listing(image);
        let several = addresses.len() > 1;
        for address in addresses {
            let site = parse(&address.base)?;
            let listed = match several.then(|| self.http.check_reach("", &site)) {
                Some(Err(error)) => Err(error),
                Some(Ok(())) | None => self.listed_by(image, &address).await,
            };
            match listed {
                Ok(parts) => {
                    answers.answered();
                    found.extend(parts);
                }
                // Registries without the referrers API answer with various statuses; 408 and 429 are
                // temporary.
                Err(FetchError::Refused {
                    status: 400..=407 | 409..=428,
                    ..
                }) => answers.answered(),
                Err(error) if several && error.is_without_answer() => {
                    self.http.record_reach(&site, &error);
                    answers.failed(error);
                }
                Err(error) => return Err(error),
            }
            if !found.is_empty() {
                break;
            }
        }
        if let Some(error) = answers.error() {
            return Err(error);
        }
        if found.is_empty() {
            found = self.under_the_tag(image).await?;
        }
        let mut seen = BTreeSet::new();
        found.retain(|part| seen.insert(part.digest));
        Ok(found.iter().map(Descriptor::from).collect())
    }

    /// Returns the registries to ask: the image's own first, because a mirror could omit signatures.
    fn listing(&self, image: &LockedImage) -> Vec<RegistryAddress> {
        let own = origin(&image.name);
        let mut addresses = self.addresses(&image.name);
        let place = Url::parse(&own.base).ok();
        let is_asked = place.is_some_and(|place| self.http.asks_origin(&place));
        if is_asked && !addresses.contains(&own) {
            addresses.insert(0, own);
        }
        addresses
    }

    /// Returns all pages of a registry's list.
    async fn listed_by(
        &self,
        image: &LockedImage,
        address: &RegistryAddress,
    ) -> Result<Vec<Part>, FetchError> {
        let label = format!("the signatures of {}", image.name);
        let access = self.access(address)?;
        let small = Small {
            label: &label,
            access: &access,
            headers: HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(INDEX_TYPES[0]))]),
            limit: LARGEST_MANIFEST,
        };
        let mut place = self.place(address, &format!("referrers/{}", image.manifest.digest))?;
        // A registry may ignore the filter; every entry is checked later.
        place
            .query_pairs_mut()
            .append_pair("artifactType", BUNDLE_TYPE);
        let mut found = Vec::new();
        for _ in 0..MAX_PAGES {
            let (bytes, next) = self.http.page(&small, &place, TRIES).await?;
            // Registries without the referrers API may answer with other content.
            let Ok(parts) = listed(&bytes) else {
                return Ok(found);
            };
            found.extend(parts);
            match next {
                Some(next) => place = next,
                None => break,
            }
        }
        Ok(found)
    }

    /// Returns the index that clients store in registries without the referrers API.
    async fn under_the_tag(&self, image: &LockedImage) -> Result<Vec<Part>, FetchError> {
        let place = image
            .name
            .with_tag(&image.referrers_tag())
            .map_err(|error| FetchError::resolve(error.to_string()))?;
        match self.manifest_of_any(&place, None).await {
            // The tag may name another artifact.
            Ok((bytes, _)) => Ok(listed(&bytes).unwrap_or_default()),
            Err(FetchError::Refused { status: 404, .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

//! What says of itself to belong to an image
//! (<https://github.com/opencontainers/distribution-spec/blob/main/spec.md#listing-referrers>).

use std::collections::BTreeSet;

use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use url::Url;

use super::manifest::{INDEX_TYPES, LARGEST_MANIFEST};
use super::{Puller, origin};
use crate::FetchError;
use crate::http::Small;
use crate::retry::TRIES;
use kubexm_bundle::lock::{Descriptor, LockedImage};
use kubexm_config::mirrors::RegistryAddress;
use kubexm_sigstore::Part;
use kubexm_sigstore::referrer::{BUNDLE_TYPE, listed};

/// A registry may give its list in pieces; no image has more.
const MOST_PIECES: usize = 8;

impl Puller {
    /// The manifests that may carry signatures of an image as bundles of Sigstore's: as its registry
    /// lists them, or, where that lists none, as the list under the tag for it has them.
    ///
    /// # Errors
    /// What the network and servers do, and a list that is none.
    pub async fn bundles_of(&self, image: &LockedImage) -> Result<Vec<Descriptor>, FetchError> {
        let mut found = Vec::new();
        for address in self.listing(image) {
            match self.listed_by(image, &address).await {
                Ok(parts) => found.extend(parts),
                // It knows no such lists, and words that differently; 408 and 429 mean another time.
                Err(FetchError::Refused {
                    status: 400..=407 | 409..=428,
                    ..
                }) => {}
                Err(error) => return Err(error),
            }
            if !found.is_empty() {
                break;
            }
        }
        if found.is_empty() {
            found = self.under_the_tag(image).await?;
        }
        let mut seen = BTreeSet::new();
        found.retain(|part| seen.insert(part.digest));
        Ok(found.iter().map(Descriptor::from).collect())
    }

    /// Whom to ask: the image's own registry first, since a mirror could leave signatures out.
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

    /// All pieces of a registry's list.
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
        // A registry may leave the filter out of account; what it lists is looked at in any case.
        place
            .query_pairs_mut()
            .append_pair("artifactType", BUNDLE_TYPE);
        let mut found = Vec::new();
        for _ in 0..MOST_PIECES {
            let (bytes, next) = self.http.piece(&small, &place, TRIES).await?;
            // Who knows no such lists may answer with anything.
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

    /// The list that clients keep where a registry makes none.
    async fn under_the_tag(&self, image: &LockedImage) -> Result<Vec<Part>, FetchError> {
        let place = image
            .name
            .with_tag(&image.referrers_tag())
            .map_err(|error| FetchError::Resolve(error.to_string()))?;
        match self.manifest(&place, None).await {
            // The tag may be somebody's own, of something else.
            Ok((bytes, _)) => Ok(listed(&bytes).unwrap_or_default()),
            Err(FetchError::Refused { status: 404, .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

//! Blobs out of a bundle into the cache, from which another bundle is packed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::cache::Partial;
use super::{Cache, FetchError};
use crate::bundle::{Blobs, Bundle, BundleError};
use crate::event::Events;
use crate::spec::Digest;

impl Cache {
    /// Takes over those of the `wanted` blobs that are not there yet.
    ///
    /// # Errors
    /// The bundle is damaged, the cache cannot be written, or `stop` says so.
    pub fn take_over(
        &self,
        bundle: &Bundle,
        wanted: &BTreeMap<Digest, u64>,
        events: &Events,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), FetchError> {
        let missing = wanted
            .iter()
            .filter(|(digest, size)| self.size(digest) != Some(**size));
        let missing: BTreeMap<Digest, u64> = missing.map(|(d, size)| (*d, *size)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let path = bundle.path().display().to_string();
        let transfer = events.transfer("unpack", path.clone(), Some(missing.values().sum()));
        let digests: BTreeSet<Digest> = missing.into_keys().collect();
        let mut open: BTreeMap<Digest, Partial> = BTreeMap::new();
        let mut unwritable = None;
        let read = bundle.stream(&digests, &mut |chunk| {
            if stop() {
                return Err(io::Error::other("stopped"));
            }
            transfer.advance(chunk.bytes.len() as u64);
            let mut keep = || -> Result<(), FetchError> {
                let mut partial = match open.remove(&chunk.digest) {
                    Some(partial) => partial,
                    None => self.anew(&chunk.digest)?,
                };
                partial.append(chunk.bytes)?;
                if !chunk.last {
                    open.insert(chunk.digest, partial);
                    return Ok(());
                }
                // The bundle has compared it already.
                partial.publish(Some(&chunk.digest)).map(|_| ())
            };
            keep().map_err(|error| {
                unwritable = Some(error);
                io::Error::other("the cache cannot be written")
            })
        });
        if let Some(error) = unwritable {
            return Err(error);
        }
        if stop() {
            return Err(BundleError::Stopped.into());
        }
        read.map_err(|source| BundleError::Io { path, source })?;
        transfer.done();
        Ok(())
    }

    /// The partial file of a blob, empty: a download may have left some of it.
    fn anew(&self, digest: &Digest) -> Result<Partial, FetchError> {
        let mut partial = self.partial(&digest.hex())?;
        partial.restart()?;
        Ok(partial)
    }
}

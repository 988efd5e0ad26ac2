//! Bundles on this machine as a source of content, used before the network.

use std::io::{self, Read, Write};
use std::sync::Arc;

use tokio::sync::Semaphore;

use super::cache::{Cache, failed};
use super::{FetchError, Http};
use kubexm_bundle::{Blobs, Bundle, EncoderCache};
use kubexm_types::event::Transfer;
use kubexm_types::{Digest, Message, WarningKind};

/// Blobs that are read concurrently. Each may need a decoder's window and recompression of its layer.
const AT_ONCE: usize = 2;
/// Buffer size for copying, in bytes.
const BLOCK: usize = 256 * 1024;

/// Bundles that are searched for content before any server.
#[derive(Clone)]
pub struct LocalBundles {
    bundles: Arc<[Bundle]>,
    reads: Arc<Semaphore>,
}

/// Why a blob could not be copied from a bundle.
enum Failure {
    /// The bundle is damaged, or this program does not have an encoder; a server may have the blob.
    Bundle(String),
    /// The cache cannot be written.
    Cache(FetchError),
}

impl From<FetchError> for Failure {
    fn from(error: FetchError) -> Self {
        Self::Cache(error)
    }
}

impl LocalBundles {
    /// Creates a source from these bundles; without bundles it has no content.
    pub fn new(bundles: Vec<Bundle>) -> Self {
        Self {
            bundles: bundles.into(),
            reads: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    fn holder(&self, digest: &Digest) -> Option<usize> {
        self.bundles.iter().position(|b| b.carries(digest))
    }
}

impl Http {
    /// Returns the size of a blob that is in the cache, or that was copied to it from a local bundle. A
    /// damaged copy is reported as a warning, and the caller downloads the blob.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub(super) async fn load_local(
        &self,
        label: &str,
        digest: &Digest,
    ) -> Result<Option<u64>, FetchError> {
        if let Some(size) = self.cache().size(digest) {
            return Ok(Some(size));
        }
        let local_bundles = self.local_bundles().clone();
        let Some(holder) = local_bundles.holder(digest) else {
            return Ok(None);
        };
        let permit = Arc::clone(&local_bundles.reads).acquire_owned().await;
        let (cache, digest) = (self.cache().clone(), *digest);
        let blobs = local_bundles.bundles[holder].lock().blobs();
        let size = blobs.get(&digest).map(|blob| blob.size);
        let transfer = self.events().transfer("base", label.to_owned(), size);
        let bundles = Arc::clone(&local_bundles.bundles);
        let copied = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            copy(&bundles[holder], &digest, &cache, &transfer).inspect(|_| transfer.done())
        });
        let copied = copied
            .await
            .map_err(|error| FetchError::resolve(format!("{label}: {error}")))?;
        match copied {
            Ok(size) => Ok(Some(size)),
            Err(Failure::Cache(error)) => Err(error),
            Err(Failure::Bundle(reason)) => {
                let path = self.local_bundles().bundles[holder].path().display();
                self.events().warn(
                    WarningKind::Base,
                    format!(
                        "downloading {label}, because the copy in {path} cannot be read ({reason})"
                    ),
                );
                Ok(None)
            }
        }
    }
}

/// Copies a blob into the cache. The blob gets its final name after its digest is verified.
fn copy(
    bundle: &Bundle,
    digest: &Digest,
    cache: &Cache,
    transfer: &Transfer,
) -> Result<u64, Failure> {
    let full = |source| Failure::Cache(failed(&cache.path(digest), source));
    // Without hints, because the blob is downloaded instead.
    let source = bundle.open(digest);
    let mut source = source.map_err(|error| Failure::Bundle(Message::from(&error).text))?;
    let size = cache.put(digest, |file| {
        let mut block = vec![0; BLOCK];
        let mut size = 0;
        loop {
            let count = match source.read(&mut block) {
                Ok(0) => return Ok(size),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Failure::Bundle(error.to_string())),
            };
            file.write_all(&block[..count]).map_err(full)?;
            transfer.advance(count as u64);
            size += count as u64;
        }
    })?;
    // The builder of the bundle proved the result of the gzip analysis, so that it need not be repeated.
    if let Some(opened) = bundle
        .opened(digest)
        .filter(|opened| bundle.proves(digest, opened))
    {
        cache.keep(digest, Some(opened));
    }
    Ok(size)
}

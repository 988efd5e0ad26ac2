//! Sources of blobs.

use std::collections::BTreeSet;
use std::io::{self, Read};

use flate2::read::MultiGzDecoder;

use crate::error::BundleError;
use crate::format::placement::DecompressedGzip;
use kubexm_types::Digest;

/// A part of a blob while it is streamed.
#[derive(Debug, Clone, Copy)]
pub struct BlobPart<'a> {
    /// The blob.
    pub digest: Digest,
    /// The next bytes.
    pub bytes: &'a [u8],
    /// Whether these are the blob's last bytes. Its digest has been verified then.
    pub last: bool,
}

/// A reader of the content of a blob that is stored decompressed.
pub type StoredContent = Option<Box<dyn Read + Send>>;

/// Receives the parts of blobs.
pub type PartHandler<'a> = dyn FnMut(BlobPart<'_>) -> io::Result<()> + 'a;

/// A source of blobs by digest: a bundle, or the cache that a bundle is built from.
pub trait Blobs: Send + Sync {
    /// Opens a blob for reading. At its end the reader compares the digest and fails with
    /// [`io::ErrorKind::InvalidData`] if it differs: a caller must not use the bytes before that.
    ///
    /// # Errors
    /// The blob does not exist or cannot be read.
    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError>;

    /// Opens a blob for a caller that hashes the bytes and compares the digest itself.
    ///
    /// # Errors
    /// As [`Blobs::open`].
    fn open_for_hashing(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        self.open(digest)
    }

    /// Opens the decompressed content of a gzip blob. A reader that reaches the end has verified it.
    ///
    /// # Errors
    /// As [`Blobs::open`].
    fn open_content(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        Ok(Box::new(MultiGzDecoder::new(self.open(digest)?)))
    }

    /// Opens the decompressed content of a gzip blob for a caller that compares what it uses with a digest of
    /// the lock, as that of a file in an archive.
    ///
    /// # Errors
    /// As [`Blobs::open`].
    fn open_content_for_hashing(
        &self,
        digest: &Digest,
    ) -> Result<Box<dyn Read + Send>, BundleError> {
        self.open_content(digest)
    }

    /// Opens the decompressed content of a gzip blob if the source stores exactly this content with
    /// this recipe; else returns `None`. A reader that reaches the end has verified it.
    ///
    /// # Errors
    /// As [`Blobs::open`].
    fn open_stored_content(
        &self,
        _digest: &Digest,
        _opened: &DecompressedGzip,
    ) -> Result<StoredContent, BundleError> {
        Ok(None)
    }

    /// Streams several blobs to `take` in the order that is fastest; parts of different blobs can
    /// alternate.
    ///
    /// # Errors
    /// A blob cannot be read or does not match its digest, or `take` fails.
    fn stream(&self, wanted: &BTreeSet<Digest>, take: &mut PartHandler<'_>) -> io::Result<()> {
        for digest in wanted {
            let mut blob = self.open(digest).map_err(io::Error::other)?;
            let mut buffer = vec![0; 1 << 17];
            loop {
                let count = blob.read(&mut buffer)?;
                take(BlobPart {
                    digest: *digest,
                    bytes: &buffer[..count],
                    last: count == 0,
                })?;
                if count == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the location of a blob for messages.
    fn place(&self, digest: &Digest) -> String {
        digest.to_string()
    }
}

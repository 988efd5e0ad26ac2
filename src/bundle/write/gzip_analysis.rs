//! Finds the gzip blobs that kubexm can reproduce bit for bit, and their encoders.

use std::io::{self, Read};

use gzip_exact::{Recognition, recognise};

use crate::format::placement::{DecompressedGzip, DecompressedGzips, LONGEST_HEADER};
use crate::threads::each;
use crate::write::grouping::SMALL;
use crate::{Blobs, BundleError, Lock};
use kubexm_types::event::{Events, Transfer};
use kubexm_types::{Digest, DigestReader, DigestWriter};

/// Stores the results of the analysis between builds.
pub trait EncoderCache: Sync {
    /// Returns the result for a blob, if it is known. `Some(None)` means that the blob cannot be reproduced.
    fn recall(&self, blob: &Digest) -> Option<Option<DecompressedGzip>>;
    /// Stores a result. A failure is ignored, because the next build repeats the analysis.
    fn keep(&self, blob: &Digest, opened: Option<&DecompressedGzip>);
}

/// Returns the gzip blobs of a lock that kubexm can reproduce. It compresses the content of each blob with
/// all encoders, `threads` blobs at a time, and compares all bytes.
///
/// # Errors
/// A blob cannot be read or differs from the lock, or `stop` returned `true`.
pub fn analyze_gzip(
    lock: &Lock,
    blobs: &dyn Blobs,
    cache: &dyn EncoderCache,
    threads: usize,
    events: &Events,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<DecompressedGzips, BundleError> {
    let all = lock.blobs();
    let candidates = all.iter().filter(|(_, blob)| blob.size >= SMALL);
    let mut found = DecompressedGzips::new();
    let mut unknown = Vec::new();
    for (digest, blob) in candidates {
        match cache.recall(digest) {
            Some(Some(opened)) => drop(found.insert(*digest, opened)),
            Some(None) => {}
            None => unknown.push((*digest, blob.size)),
        }
    }
    // The largest blobs first, so that all threads end at about the same time.
    unknown.sort_by_key(|(digest, size)| (std::cmp::Reverse(*size), *digest));
    let total = unknown
        .iter()
        .map(|(_, size)| *size)
        .fold(0, u64::saturating_add);
    let transfer = events.transfer("analyze", "layers and archives".to_owned(), Some(total));
    let results = each(&unknown, threads.max(1), |(digest, size)| {
        (!stop()).then(|| (*digest, open(blobs, digest, *size, &transfer, stop)))
    });
    if stop() {
        return Err(BundleError::Stopped);
    }
    for (digest, result) in results.into_iter().flatten() {
        let opened = result?;
        cache.keep(&digest, opened.as_ref());
        if let Some(opened) = opened {
            found.insert(digest, opened);
        }
    }
    transfer.done();
    Ok(found)
}

fn open(
    blobs: &dyn Blobs,
    digest: &Digest,
    size: u64,
    transfer: &Transfer,
    stop: &dyn Fn() -> bool,
) -> Result<Option<DecompressedGzip>, BundleError> {
    let failed = |source: io::Error| BundleError::Io {
        path: blobs.place(digest),
        source,
    };
    let reader = ProgressReader {
        inner: blobs.open_for_hashing(digest)?,
        transfer,
        stop,
    };
    let mut source = DigestReader::new(reader.take(size + 1));
    let mut content = DigestWriter::new(io::sink());
    let recognition = recognise(&mut source, &mut content).map_err(failed)?;
    let Recognition::Known { recipe, plain } = recognition else {
        return Ok(None);
    };
    // A reader refuses a placement document with a longer header.
    if recipe.header.len() > LONGEST_HEADER {
        return Ok(None);
    }
    let (got, _) = source.finish();
    if got != *digest {
        return Err(BundleError::Source {
            path: blobs.place(digest),
            label: "a download".to_owned(),
            expected: *digest,
            got,
        });
    }
    Ok(Some(DecompressedGzip {
        content: content.digest(),
        size: plain,
        recipe: recipe.into(),
    }))
}

/// Reports progress to a transfer, and fails when `stop` returns `true`.
struct ProgressReader<'a, R> {
    inner: R,
    transfer: &'a Transfer,
    stop: &'a dyn Fn() -> bool,
}

impl<R: Read> Read for ProgressReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.stop)() {
            return Err(io::Error::other("stopped"));
        }
        let count = self.inner.read(buffer)?;
        if count > 0 {
            self.transfer.advance(count as u64);
        }
        Ok(count)
    }
}

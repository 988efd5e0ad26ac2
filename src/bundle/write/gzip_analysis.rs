//! Finding out which gzip blobs can be held opened up.

use std::io::{self, Read};

use gzip_exact::{Recognition, recognise};

use crate::format::placement::{DecompressedGzip, DecompressedGzips, LONGEST_HEADER};
use crate::threads::each;
use crate::write::grouping::SMALL;
use crate::{Blobs, BundleError, Lock};
use kubexm_types::event::{Events, Transfer};
use kubexm_types::{Digest, DigestReader, DigestWriter};

/// Where it is kept what became of a blob, so that the next build need not try again.
pub trait EncoderCache: Sync {
    /// What is known of a blob: `Some(None)` where it cannot be made again.
    fn recall(&self, blob: &Digest) -> Option<Option<DecompressedGzip>>;
    /// Keeps it. That it cannot be kept costs time, nothing else.
    fn keep(&self, blob: &Digest, opened: Option<&DecompressedGzip>);
}

/// Tries to make every gzip blob of a lock again, `threads` at a time. A blob is only held opened up
/// when all of its bytes came out again.
///
/// # Errors
/// A blob cannot be read or is not what the lock says, or `stop` said so.
pub fn openings(
    lock: &Lock,
    blobs: &dyn Blobs,
    recipes: &dyn EncoderCache,
    threads: usize,
    events: &Events,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<DecompressedGzips, BundleError> {
    let all = lock.blobs();
    let candidates = all.iter().filter(|(_, blob)| blob.size >= SMALL);
    let mut found = DecompressedGzips::new();
    let mut unknown = Vec::new();
    for (digest, blob) in candidates {
        match recipes.recall(digest) {
            Some(Some(opened)) => drop(found.insert(*digest, opened)),
            Some(None) => {}
            None => unknown.push((*digest, blob.size)),
        }
    }
    // The largest first, so that none is left over at the end.
    unknown.sort_by_key(|(digest, size)| (std::cmp::Reverse(*size), *digest));
    let total = unknown.iter().map(|(_, size)| size).sum();
    let transfer = events.transfer("analyze", "layers and archives".to_owned(), Some(total));
    let results = each(&unknown, threads.max(1), |(digest, size)| {
        (!stop()).then(|| (*digest, open(blobs, digest, *size, &transfer, stop)))
    });
    if stop() {
        return Err(BundleError::Stopped);
    }
    for (digest, result) in results.into_iter().flatten() {
        let opened = result?;
        recipes.keep(&digest, opened.as_ref());
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
    let watched = Watched {
        inner: blobs.open(digest)?,
        transfer,
        stop,
    };
    let mut source = DigestReader::new(watched.take(size + 1));
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
        recipe,
    }))
}

/// Tells a transfer what is read, and fails once that shall stop.
pub(crate) struct Watched<'a, R> {
    pub(crate) inner: R,
    pub(crate) transfer: &'a Transfer,
    pub(crate) stop: &'a dyn Fn() -> bool,
}

impl<R: Read> Read for Watched<'_, R> {
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

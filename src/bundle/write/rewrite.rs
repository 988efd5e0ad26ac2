//! Splits, joins and signs bundles. The compressed content is copied.

use std::io::{self, Read, Write};
use std::path::Path;

use crate::signature::Signer;
use crate::write::{Sink, Written, head_frame};
use crate::{Bundle, BundleError};
use kubexm_types::event::{Events, Transfer};

/// Writes the same bytes as one file, or in volumes of `volume` bytes. Compares the volumes that it reads
/// with their list.
///
/// # Errors
/// A volume is damaged, the file system fails, or `stop` returned `true`.
pub fn resplit(
    bundle: &Bundle,
    path: &Path,
    volume: Option<u64>,
    events: &Events,
    stop: &dyn Fn() -> bool,
) -> Result<Written, BundleError> {
    let mut copy = Copying::begin(bundle, path, volume, events, stop)?;
    bundle
        .volumes()
        .copy(|bytes| copy.write_all(bytes).map_err(|error| copy.failed(error)))?;
    copy.end()
}

/// Writes the same bundle with a new signature, which replaces an earlier one.
///
/// # Errors
/// The key cannot sign, the file system fails, or `stop` returned `true`.
pub fn sign(
    bundle: &Bundle,
    signer: &Signer,
    path: &Path,
    volume: Option<u64>,
    events: &Events,
    stop: &dyn Fn() -> bool,
) -> Result<Written, BundleError> {
    let failed = |reason: String| BundleError::damaged(bundle.path(), reason);
    let io = |source| BundleError::io(path, source);
    let mut documents = bundle.documents().clone();
    documents
        .sign(signer, &bundle.lock().name)
        .map_err(failed)?;

    let mut copy = Copying::begin(bundle, path, volume, events, stop)?;
    let mut frames = bundle.frames().to_vec();
    let Some(first) = frames.first_mut() else {
        return Err(failed("its seek table is empty".to_owned()));
    };
    let before = u64::from(first.packed);
    *first = head_frame(&documents, bundle.storage(), &mut copy.out).map_err(io)?;
    let rest: u64 = frames[1..].iter().map(|f| u64::from(f.packed)).sum();
    let mut rest = bundle.volumes().reader(before).take(rest);
    io::copy(&mut rest, &mut copy).map_err(|error| copy.failed(error))?;
    copy.out.end_table(&frames).map_err(io)?;
    copy.end()
}

/// A running copy.
struct Copying<'a> {
    out: Sink,
    path: String,
    transfer: Transfer,
    stop: &'a dyn Fn() -> bool,
}

impl<'a> Copying<'a> {
    fn begin(
        bundle: &Bundle,
        path: &Path,
        volume: Option<u64>,
        events: &Events,
        stop: &'a dyn Fn() -> bool,
    ) -> Result<Self, BundleError> {
        let shown = path.display().to_string();
        Ok(Self {
            out: Sink::create(path, volume)?,
            transfer: events.transfer("copy", shown.clone(), Some(bundle.size())),
            path: shown,
            stop,
        })
    }

    fn failed(&self, source: io::Error) -> BundleError {
        if (self.stop)() {
            BundleError::Stopped
        } else {
            BundleError::Io {
                path: self.path.clone(),
                source,
            }
        }
    }

    fn end(mut self) -> Result<Written, BundleError> {
        self.out.flush().map_err(|error| self.failed(error))?;
        self.transfer.done();
        self.out.persist()
    }
}

impl Write for Copying<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if (self.stop)() {
            return Err(io::Error::other("stopped"));
        }
        let count = self.out.write(buffer)?;
        self.transfer.advance(count as u64);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

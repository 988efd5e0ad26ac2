//! Partial downloads: bytes that are written to the cache in any order.
//!
//! A digest needs the bytes in order, but ranges arrive in any order. The hash therefore follows the front:
//! a chunk at the front is hashed from memory. A chunk behind a gap is read back, usually from the page
//! cache, when the front reaches it; each write hashes a limited amount of it. When the last byte arrives,
//! little is left to read. A download over one connection reads nothing back.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::cache::failed;
use super::ranges::Ranges;
use super::record::{Record, Version};
use super::{Cache, FetchError};
use kubexm_types::{Digest, DigestWriter};

/// Maximum number of received bytes that are lost if the process is killed.
const UNRECORDED: u64 = 512 * 1024;
/// Maximum number of received bytes that are lost if the machine loses power.
const UNFLUSHED: u64 = 64 * 1024 * 1024;
/// Space that a download leaves on the disk, in bytes; less on small disks.
const RESERVE: u64 = 64 * 1024 * 1024;
/// Bytes that are hashed from the file with each chunk; more than a chunk has, so that the hash catches up.
const CATCH_UP: u64 = 1024 * 1024;

/// A file that is being downloaded, locked against other writers for its lifetime.
pub struct Partial {
    cache: Cache,
    path: PathBuf,
    file: File,
    state: Mutex<State>,
    flushing: Arc<AtomicBool>,
}

struct State {
    version: Version,
    there: Ranges,
    /// The ranges that are surely on the disk. Replaced after a restart, because a flush may still be
    /// running.
    flushed: Arc<Mutex<Ranges>>,
    hash: DigestWriter<io::Sink>,
    /// Number of hashed bytes.
    hashed: u64,
    record: Record,
    unrecorded: u64,
    unflushed: u64,
    buffer: Vec<u8>,
}

impl Partial {
    /// Continues with the content of `file` from an earlier run. The caller has locked it.
    pub(super) fn take_over(cache: Cache, path: &Path, file: File) -> io::Result<Self> {
        let (version, there) = Record::read(path, file.metadata()?.len());
        if there == Ranges::default() {
            file.set_len(0)?;
        } else {
            // After this, all ranges that are present are also flushed.
            file.sync_data()?;
        }
        let record = Record::begin(path, &version, &there).or_else(|error| match error.kind() {
            io::ErrorKind::StorageFull if there.bytes() > 0 => Record::go_on(path),
            _ => Err(error),
        })?;
        let partial = Self {
            cache,
            path: path.to_owned(),
            file,
            flushing: Arc::default(),
            state: Mutex::new(State {
                version,
                flushed: Arc::new(Mutex::new(there.clone())),
                there,
                hash: DigestWriter::new(io::sink()),
                hashed: 0,
                record,
                unrecorded: 0,
                unflushed: 0,
                buffer: Vec::new(),
            }),
        };
        partial.state().catch_up(&partial.file, u64::MAX)?;
        Ok(partial)
    }

    /// Returns the number of received bytes.
    pub fn length(&self) -> u64 {
        self.state().there.bytes()
    }

    /// Returns the number of bytes before the first gap.
    pub fn front(&self) -> u64 {
        self.state().there.front()
    }

    /// Whether there are bytes behind a gap.
    pub fn has_gaps(&self) -> bool {
        let state = self.state();
        state.there.front() < state.there.bytes()
    }

    /// Returns the missing ranges of a file of `total` bytes.
    pub fn gaps(&self, total: u64) -> Vec<Range<u64>> {
        self.state().there.gaps(total)
    }

    /// Whether the received bytes have this digest.
    pub fn is(&self, digest: &Digest) -> bool {
        let state = self.state();
        state.hashed == state.there.bytes() && state.hash.digest() == *digest
    }

    /// Returns the version that the bytes belong to.
    pub fn version(&self) -> Version {
        self.state().version.clone()
    }

    /// Sets the version that the bytes belong to, before the first of them is written.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub fn set_version(&self, version: Version) -> Result<(), FetchError> {
        let mut state = self.state();
        if state.version == version {
            return Ok(());
        }
        state.version = version;
        let total = state.version.total.unwrap_or(0);
        let missing = total.saturating_sub(state.there.bytes());
        let written = self.check_space(missing).and_then(|()| state.record());
        written.map_err(|source| self.failed(&state, source))
    }

    /// Checks that the disk has space for more bytes, and keeps a reserve for other programs.
    fn check_space(&self, more: u64) -> io::Result<()> {
        let free = fs4::available_space(self.cache.root())?;
        if free < more.saturating_add(self.reserve()) {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            Ok(())
        }
    }

    fn reserve(&self) -> u64 {
        fs4::total_space(self.cache.root()).map_or(RESERVE, |total| RESERVE.min(total / 100))
    }

    /// Discards all received bytes.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub fn restart(&self) -> Result<(), FetchError> {
        let mut state = self.state();
        let fail = |source| failed(&self.path, source);
        state.version = Version::default();
        state.there = Ranges::default();
        state.flushed = Arc::default();
        // The record first: it must never describe bytes that do not exist.
        state.record = Record::begin(&self.path, &state.version, &state.there).map_err(fail)?;
        self.file.set_len(0).map_err(fail)?;
        state.hash = DigestWriter::new(io::sink());
        state.hashed = 0;
        Ok(())
    }

    /// Appends bytes at the front.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub fn append(&self, bytes: &[u8]) -> Result<(), FetchError> {
        self.write(self.front(), bytes)
    }

    /// Writes bytes at an offset of the file.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), FetchError> {
        let mut state = self.state();
        let written = self.try_write(&mut state, at, bytes);
        written.map_err(|source| self.failed(&state, source))
    }

    fn try_write(&self, state: &mut State, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, at)?;
        let length = bytes.len() as u64;
        if at == state.hashed {
            state.hash.write_all(bytes)?;
            state.hashed += length;
        }
        state.there.insert(at..at + length);
        state.catch_up(&self.file, CATCH_UP)?;
        state.unrecorded += length;
        state.unflushed += length;
        if state.unflushed >= UNFLUSHED && self.flush_behind(state)? {
            state.unflushed = 0;
        }
        if state.unrecorded >= UNRECORDED {
            self.check_space(0)?;
            state.record()?;
        }
        Ok(())
    }

    /// Records the progress before a pause.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub fn record(&self) -> Result<(), FetchError> {
        let mut state = self.state();
        if state.unrecorded == 0 {
            return Ok(());
        }
        let written = state.record();
        written.map_err(|source| self.failed(&state, source))
    }

    /// Flushes the written bytes in the background. Returns `false` if a flush is already running.
    fn flush_behind(&self, state: &State) -> io::Result<bool> {
        if self.flushing.swap(true, Ordering::AcqRel) {
            return Ok(false);
        }
        let file = self.file.try_clone()?;
        let (flushing, flushed) = (Arc::clone(&self.flushing), Arc::clone(&state.flushed));
        let there = state.there.clone();
        std::thread::spawn(move || {
            // If the disk fails here, it fails again when the file is published.
            if file.sync_data().is_ok() {
                *flushed.lock().unwrap_or_else(PoisonError::into_inner) = there;
            }
            flushing.store(false, Ordering::Release);
        });
        Ok(true)
    }

    /// Renames the file to its digest. If another digest is expected, deletes the file and returns the
    /// actual digest as the inner error.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub fn publish(
        self,
        expected: Option<&Digest>,
    ) -> Result<Result<(Digest, u64), Digest>, FetchError> {
        let mut state = self.state();
        let caught_up = state.catch_up(&self.file, u64::MAX);
        caught_up.map_err(|source| failed(&self.path, source))?;
        let (digest, size) = (state.hash.digest(), state.hashed);
        if expected.is_some_and(|expected| *expected != digest) {
            state.record.remove();
            std::fs::remove_file(&self.path).map_err(|source| failed(&self.path, source))?;
            return Ok(Err(digest));
        }
        let target = self.cache.path(&digest);
        let fail = |source| failed(&target, source);
        self.file.sync_all().map_err(fail)?;
        // Before the name becomes free, because the next partial file of this name has its own record.
        state.record.remove();
        std::fs::rename(&self.path, &target).map_err(fail)?;
        Ok(Ok((digest, size)))
    }

    /// Deletes the file, because it is not needed.
    pub(super) fn discard(self) {
        // A file that stays is deleted when the next download of this name starts.
        self.state().record.remove();
        let _ = std::fs::remove_file(&self.path);
    }

    /// Converts an I/O error; if the disk is full, adds the missing space for this file.
    fn failed(&self, state: &State, source: io::Error) -> FetchError {
        let path = match failed(&self.path, source) {
            FetchError::Full { path, .. } => path,
            other => return other,
        };
        let free = fs4::available_space(self.cache.root()).unwrap_or(0);
        let total = state.version.total;
        let needs = |total: u64| total.saturating_sub(state.there.bytes()) + self.reserve();
        let missing = total.map(|total| needs(total).saturating_sub(free));
        FetchError::Full {
            path,
            missing: missing.filter(|missing| *missing > 0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Partial {
    /// Records the progress, so that a stopped build keeps all received bytes.
    fn drop(&mut self) {
        if let Err(error) = self.record() {
            tracing::debug!(%error, "cannot record the progress of a download");
        }
    }
}

impl State {
    fn record(&mut self) -> io::Result<()> {
        let flushed = self.flushed.lock().unwrap_or_else(PoisonError::into_inner);
        self.record.add(&self.version, &self.there, &flushed)?;
        drop(flushed);
        self.unrecorded = 0;
        Ok(())
    }

    /// Hashes up to `limit` bytes that were written ahead of the front.
    fn catch_up(&mut self, file: &File, limit: u64) -> io::Result<()> {
        let end = self.there.front().min(self.hashed.saturating_add(limit));
        if self.hashed >= end {
            return Ok(());
        }
        self.buffer.resize(256 * 1024, 0);
        while self.hashed < end {
            let rest = usize::try_from(end - self.hashed).unwrap_or(usize::MAX);
            let part = rest.min(self.buffer.len());
            let part = &mut self.buffer[..part];
            file.read_exact_at(part, self.hashed)?;
            self.hash.write_all(part)?;
            self.hashed += part.len() as u64;
        }
        Ok(())
    }
}

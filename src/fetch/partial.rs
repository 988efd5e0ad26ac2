//! Bytes on their way into the cache, in any order.
//!
//! A digest wants the bytes in order, ranges come in none. So the hash follows the front: a chunk
//! that arrives just there is hashed out of memory, and one that came before its turn is read back
//! (out of the page cache, since it was written moments ago) as soon as the front reaches it, a
//! little with each chunk that is written. When the last byte arrives there is next to nothing left
//! to read, and a download over one connection reads nothing at all.

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

/// So much may be lost of what was received when the process is killed.
const UNRECORDED: u64 = 512 * 1024;
/// So much may be lost when the machine loses its power.
const UNFLUSHED: u64 = 64 * 1024 * 1024;
/// The hash is brought on by so much with each chunk, more than a chunk has: so it catches up.
const CATCH_UP: u64 = 1024 * 1024;

/// A file that is being downloaded; nobody else writes to it as long as this lives.
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
    /// What the disk has for sure. Another one after a restart: a flush may still be on its way.
    flushed: Arc<Mutex<Ranges>>,
    hash: DigestWriter<io::Sink>,
    /// How far the hash has come.
    hashed: u64,
    record: Record,
    unrecorded: u64,
    unflushed: u64,
    buffer: Vec<u8>,
}

impl Partial {
    /// Takes over what an earlier run left in `file`, which the caller has locked.
    pub(super) fn take_over(cache: Cache, path: &Path, file: File) -> io::Result<Self> {
        let (version, there) = Record::read(path, file.metadata()?.len());
        if there == Ranges::default() {
            file.set_len(0)?;
        } else {
            // So that what is there need not be told apart from what was flushed.
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

    /// Bytes that are there, wherever in the file.
    pub fn length(&self) -> u64 {
        self.state().there.bytes()
    }

    /// Bytes that are there from the beginning on.
    pub fn front(&self) -> u64 {
        self.state().there.front()
    }

    /// Whether there are bytes behind a gap.
    pub fn has_gaps(&self) -> bool {
        let state = self.state();
        state.there.front() < state.there.bytes()
    }

    /// What a file of `total` bytes still lacks.
    pub fn gaps(&self, total: u64) -> Vec<Range<u64>> {
        self.state().there.gaps(total)
    }

    /// Whether the bytes that are there are all that is wanted.
    pub fn is(&self, digest: &Digest) -> bool {
        let state = self.state();
        state.hashed == state.there.bytes() && state.hash.digest() == *digest
    }

    /// The version that the bytes belong to.
    pub fn version(&self) -> Version {
        self.state().version.clone()
    }

    /// Says which version the bytes belong to, before the first of them is written.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub fn set_version(&self, version: Version) -> Result<(), FetchError> {
        let mut state = self.state();
        if state.version == version {
            return Ok(());
        }
        state.version = version;
        let written = state.record();
        written.map_err(|source| self.failed(&state, source))
    }

    /// Forgets what is there.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub fn restart(&self) -> Result<(), FetchError> {
        let mut state = self.state();
        let fail = |source| failed(&self.path, source);
        state.version = Version::default();
        state.there = Ranges::default();
        state.flushed = Arc::default();
        // First the record: it may never speak of bytes that are gone.
        state.record = Record::begin(&self.path, &state.version, &state.there).map_err(fail)?;
        self.file.set_len(0).map_err(fail)?;
        state.hash = DigestWriter::new(io::sink());
        state.hashed = 0;
        Ok(())
    }

    /// Writes bytes behind those that are there from the beginning on.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub fn append(&self, bytes: &[u8]) -> Result<(), FetchError> {
        self.write(self.front(), bytes)
    }

    /// Writes bytes at a place of the file.
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
            state.record()?;
        }
        Ok(())
    }

    /// Writes down how far it came, before a pause.
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

    /// Flushes what is there to the disk while more arrives. `false` where that is being done.
    fn flush_behind(&self, state: &State) -> io::Result<bool> {
        if self.flushing.swap(true, Ordering::AcqRel) {
            return Ok(false);
        }
        let file = self.file.try_clone()?;
        let (flushing, flushed) = (Arc::clone(&self.flushing), Arc::clone(&state.flushed));
        let there = state.there.clone();
        std::thread::spawn(move || {
            // A disk that fails here fails again when the file is published.
            if file.sync_data().is_ok() {
                *flushed.lock().unwrap_or_else(PoisonError::into_inner) = there;
            }
            flushing.store(false, Ordering::Release);
        });
        Ok(true)
    }

    /// Gives the bytes their final name, which is their digest. Where another digest is expected
    /// they are deleted, and the inner error is the digest that they have.
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
        // Before the name is free: the next one with this name has a record of its own.
        state.record.remove();
        std::fs::rename(&self.path, &target).map_err(fail)?;
        Ok(Ok((digest, size)))
    }

    /// Takes the file away: nobody needs it any more.
    pub(super) fn discard(self) {
        // What stays is found, and taken away, by the next one.
        self.state().record.remove();
        let _ = std::fs::remove_file(&self.path);
    }

    /// An error of the cache; for a full disk with how much it lacks for this file.
    fn failed(&self, state: &State, source: io::Error) -> FetchError {
        let path = match failed(&self.path, source) {
            FetchError::Full { path, .. } => path,
            other => return other,
        };
        let free = fs4::available_space(self.cache.root()).unwrap_or(0);
        let total = state.version.total;
        let lacks = |total: u64| total.saturating_sub(state.there.bytes() + free);
        FetchError::Full {
            path,
            missing: total.map(lacks),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Partial {
    /// A build that is stopped keeps all that it received.
    fn drop(&mut self) {
        if let Err(error) = self.record() {
            tracing::debug!(%error, "the last bytes of a download are not recorded");
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

    /// Hashes up to `limit` bytes that were written before their turn.
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

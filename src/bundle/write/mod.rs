//! Writes a bundle from a lock, a placement and a source of blobs.

mod background_sync;
pub mod compress;
mod group_reader;
pub mod grouping;
pub mod gzip_analysis;
mod ordered_semaphore;
mod output;
mod parallel_compress;
pub mod rewrite;

use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::level::Level;
use super::lock::Lock;
use super::signature::Signer;
use super::{Blobs, Bundle, BundleError};
use crate::format::chunks::{GroupLayout, StoredBlob};
use crate::format::oci_layout;
use crate::format::placement::{DecompressedGzips, Placement};
use crate::format::seek_table;
use crate::format::seek_table::Frame;
use crate::format::tar_entry::{TAR_BLOCK, TRAILER, entry_header};
use crate::lock::blob_index::content_size;
use crate::read::group::FrameRange;
use crate::write::compress::Effort;
use crate::write::group_reader::GroupSource;
use crate::write::output::Output;
use crate::write::parallel_compress::FrameQueue;
use kubexm_types::event::Events;
use kubexm_types::{Digest, DigestWriter};

/// Maximum uncompressed size of a frame, in bytes. Sizes in the seek table have 32 bits.
pub(super) const LARGEST_FRAME: u64 = 1 << 30;

/// How to write a bundle.
#[derive(Debug, Clone, Copy)]
pub struct PackOptions<'a> {
    pub level: Level,
    /// Number of threads that compress; the result does not depend on it.
    pub threads: u32,
    /// Size of a volume in bytes; `None` for a single file.
    pub volume: Option<u64>,
    pub signed: Signed<'a>,
    /// A bundle whose compressed groups are copied where the new bundle has the same groups. The level
    /// then applies to the other groups only.
    pub copied: Option<&'a Bundle>,
    /// The gzip blobs that were recompressed from their content and compared. A reader does not repeat that.
    /// [`Signed::As`] has its own.
    pub proven: Option<&'a DecompressedGzips>,
}

/// The signature of the new bundle.
#[derive(Debug, Clone, Copy, Default)]
pub enum Signed<'a> {
    /// None.
    #[default]
    No,
    /// A new signature by this key.
    By(&'a Signer),
    /// The header documents of another bundle with the same content, with its signature if it has one.
    As(&'a oci_layout::Documents),
}

impl PackOptions<'_> {
    /// Returns options for a single file without a signature.
    pub const fn new(level: Level, threads: u32) -> Self {
        Self {
            level,
            threads,
            volume: None,
            signed: Signed::No,
            copied: None,
            proven: None,
        }
    }
}

/// A bundle that was written.
#[derive(Debug, Clone, Copy)]
pub struct Written {
    /// Size of the file or of all volumes, in bytes.
    pub size: u64,
    /// SHA-256 of the file, or of all volumes in sequence.
    pub digest: Digest,
}

/// Writes a bundle. It writes a temporary file first, so that only a complete bundle gets the final name.
///
/// # Errors
/// A blob is missing or differs from the lock, or the file system fails.
pub fn write(
    path: &Path,
    lock: &Lock,
    storage: &Placement,
    blobs: &dyn Blobs,
    options: PackOptions<'_>,
    events: &Events,
) -> Result<Written, BundleError> {
    write_until(path, lock, storage, blobs, options, events, &|| false)
}

/// Writes a bundle like [`write`], and stops when `stop` returns `true`.
///
/// # Errors
/// As [`write`], and [`BundleError::Stopped`].
pub fn write_until(
    path: &Path,
    lock: &Lock,
    storage: &Placement,
    blobs: &dyn Blobs,
    options: PackOptions<'_>,
    events: &Events,
    stop: &dyn Fn() -> bool,
) -> Result<Written, BundleError> {
    let mut out = Sink::create(path, options.volume)?;
    let packer = Packer {
        lock,
        storage,
        blobs,
        options,
        events,
        path: path.display().to_string(),
        stop,
    };
    match packer.pack(&mut out) {
        Ok(()) => out.persist(),
        Err(error) => {
            let error = named(&packer.path, error);
            Err(explain(error, stop(), out.output(), lock))
        }
    }
}

/// Creates the directory of a bundle and checks that it is writable.
///
/// # Errors
/// It is not writable.
pub fn check_folder(path: &Path) -> Result<(), BundleError> {
    Output::create(path, None).map(|_| ())
}

/// Returns the error for the user: stopped, disk full, or the error itself.
fn explain(error: BundleError, stopped: bool, output: &Output, lock: &Lock) -> BundleError {
    match error {
        _ if stopped => BundleError::Stopped,
        BundleError::Io { path, source } if source.kind() == io::ErrorKind::StorageFull => {
            let content = content_size(lock.blobs());
            // The space of partial files is free again after this error.
            let free = fs4::available_space(output.folder()).unwrap_or_default();
            BundleError::Full {
                path,
                content,
                free: free + output.written(),
            }
        }
        other => other,
    }
}

/// Returns the [`BundleError`] inside an I/O error, or an error with the path.
fn named(path: &str, source: io::Error) -> BundleError {
    match source.downcast::<BundleError>() {
        Ok(error) => error,
        Err(source) => BundleError::Io {
            path: path.to_owned(),
            source,
        },
    }
}

/// The output of a bundle's frames.
pub(super) struct Sink {
    out: DigestWriter<BufWriter<Output>>,
}

impl Sink {
    pub(super) fn create(path: &Path, volume: Option<u64>) -> Result<Self, BundleError> {
        let output = Output::create(path, volume)?;
        Ok(Self {
            // The buffers of the compressing threads are as large, so that they are not copied.
            out: DigestWriter::new(BufWriter::with_capacity(1 << 18, output)),
        })
    }

    fn output(&self) -> &Output {
        self.out.inner().get_ref()
    }

    /// Writes the seek table at the end.
    pub(super) fn end_table(&mut self, frames: &[Frame]) -> io::Result<()> {
        self.write_all(&seek_table::encode(frames))?;
        self.flush()
    }

    /// Gives the complete bundle its final name.
    pub(super) fn persist(self) -> Result<Written, BundleError> {
        let (out, digest, size) = self.out.finish();
        let (output, _) = out.into_parts();
        output.persist()?;
        Ok(Written { size, digest })
    }
}

impl Write for Sink {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.out.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes the header frame.
pub(super) fn head_frame(
    head: &oci_layout::Documents,
    storage: &Placement,
    out: &mut dyn Write,
) -> io::Result<Frame> {
    let storage = serde_json::to_vec(storage)?;
    let mut plain = Vec::new();
    for (name, content) in head.entries(&storage) {
        plain.extend_from_slice(&entry_header(&name, content.len() as u64));
        plain.extend_from_slice(content);
        plain.resize(plain.len().next_multiple_of(TAR_BLOCK as usize), 0);
    }
    // Always the same level, so that a bundle that is signed later has the same bytes.
    let effort = Effort::new(Level::MEDIUM_MEMORY, 0, false);
    compress::frame(&mut &plain[..], plain.len() as u64, out, effort, 1)
}

struct Packer<'a> {
    lock: &'a Lock,
    storage: &'a Placement,
    blobs: &'a dyn Blobs,
    options: PackOptions<'a>,
    events: &'a Events,
    path: String,
    stop: &'a dyn Fn() -> bool,
}

impl Packer<'_> {
    fn pack(&self, out: &mut Sink) -> io::Result<()> {
        let head = self.head().map_err(|reason| self.damaged(&reason))?;
        let first = head_frame(&head, self.storage, out)?;
        let mut frames =
            parallel_compress::frames(out, self.options.threads, |feed| self.feed(feed))?;
        frames.insert(0, first);
        out.end_table(&frames)
    }

    fn head(&self) -> Result<oci_layout::Documents, String> {
        if let Signed::As(head) = self.options.signed {
            return Ok(head.clone());
        }
        let none = DecompressedGzips::new();
        let mut head = oci_layout::head(self.lock, self.options.proven.unwrap_or(&none))?;
        if let Signed::By(signer) = self.options.signed {
            head.sign(signer, &self.lock.name)?;
        }
        Ok(head)
    }

    /// Sends all groups and the end of the tar to the queue.
    fn feed(&self, feed: &FrameQueue) -> io::Result<()> {
        let all = self.lock.blobs();
        let entries = self.storage.groups.iter().flat_map(|group| &group.entries);
        // Progress counts stored bytes: a source may have the published or the decompressed form.
        let total = entries
            .filter_map(|entry| match &entry.opened {
                Some(opened) => Some(opened.size),
                None => all.get(&entry.blob).map(|blob| blob.size),
            })
            .fold(0, u64::saturating_add);
        let transfer = self.events.transfer("pack", &*self.path, Some(total));
        let label = |digest: &Digest| {
            all.get(digest)
                .map_or(String::new(), |blob| blob.label.clone())
        };
        for group in &self.storage.groups {
            let layout = GroupLayout::new(group, |digest| all.get(digest).map(|blob| blob.size))
                .ok_or_else(|| self.damaged("a blob is not in the lock"))?;
            if let Some(old) = self.options.copied
                && let Some((range, frames)) = old.packed_group(&layout)
            {
                self.copy(feed, old, range, frames)?;
                let stored = layout.entries().iter().map(StoredBlob::stored_size);
                transfer.advance(stored.sum());
                continue;
            }
            let source = GroupSource::open(&layout, self.blobs, &label, &transfer, self.stop);
            self.group(feed, &layout, source.map_err(io::Error::other)?)?;
        }
        transfer.done();
        let trailer = [0u8; TRAILER as usize];
        feed.frame(&mut &trailer[..], TRAILER, Effort::least())
    }

    /// Copies the frames of a group.
    fn copy(
        &self,
        feed: &FrameQueue,
        old: &Bundle,
        range: FrameRange,
        frames: &[Frame],
    ) -> io::Result<()> {
        let mut packed = old.volumes().reader(range.offset);
        for frame in frames {
            if (self.stop)() {
                return Err(io::Error::other("stopped"));
            }
            feed.copy(&mut packed, *frame, &old.path().display().to_string())?;
        }
        Ok(())
    }

    fn group(
        &self,
        feed: &FrameQueue,
        layout: &GroupLayout,
        mut source: GroupSource<'_>,
    ) -> io::Result<()> {
        let mut left = layout
            .plain()
            .ok_or_else(|| self.damaged("the size of a group exceeds 64 bits"))?;
        let effort = if source.starts_compressed()? {
            Effort::least()
        } else {
            Effort::new(self.options.level, left, has_similar_files(layout))
        };
        while left > 0 {
            let plain = left.min(LARGEST_FRAME);
            feed.frame(&mut source, plain, effort)?;
            left -= plain;
        }
        // The read at the end compares the digest of the last blob.
        io::copy(&mut source, &mut io::sink()).map(|_| ())
    }

    fn damaged(&self, reason: &str) -> io::Error {
        io::Error::other(BundleError::Damaged {
            path: self.path.clone(),
            reason: reason.into(),
        })
    }
}

/// Returns whether a group contains several files: as blobs, or in a decompressed archive.
fn has_similar_files(layout: &GroupLayout) -> bool {
    let entries = layout.entries();
    entries.len() > 1 || entries.iter().any(|stored| stored.opened.is_some())
}

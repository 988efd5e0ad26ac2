//! Packing: from a lock, an arrangement and a store of blobs to one file.

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
use super::{Blobs, BundleError};
use crate::format::chunks::GroupLayout;
use crate::format::oci_layout;
use crate::format::placement::Placement;
use crate::format::seek_table;
use crate::format::seek_table::Frame;
use crate::format::tar_entry::{TAR_BLOCK, TRAILER, entry_header};
use crate::lock::blob_index::content_size;
use crate::write::compress::Effort;
use crate::write::group_reader::GroupSource;
use crate::write::output::Output;
use crate::write::parallel_compress::FrameQueue;
use kubexm_types::event::Events;
use kubexm_types::{Digest, DigestWriter};

/// A frame holds at most this many plain bytes: sizes in the seek table have 32 bits.
pub(super) const LARGEST_FRAME: u64 = 1 << 30;

/// How to pack.
#[derive(Debug, Clone, Copy)]
pub struct PackOptions<'a> {
    /// How hard.
    pub level: Level,
    /// Threads that compress; the result does not depend on it.
    pub threads: u32,
    /// Bytes of a volume, where the bundle is to be split.
    pub volume: Option<u64>,
    /// Who signs it.
    pub signed: Signed<'a>,
}

/// What becomes of a bundle's signature.
#[derive(Debug, Clone, Copy, Default)]
pub enum Signed<'a> {
    /// There is none.
    #[default]
    No,
    /// It is signed now.
    By(&'a Signer),
    /// It has the texts of another bundle of the same content, its signature included.
    As(&'a oci_layout::Documents),
}

impl PackOptions<'_> {
    /// One file that nobody signs.
    pub const fn new(level: Level, threads: u32) -> Self {
        Self {
            level,
            threads,
            volume: None,
            signed: Signed::No,
        }
    }
}

/// What was written.
#[derive(Debug, Clone, Copy)]
pub struct Written {
    /// Bytes of the file, or of all volumes.
    pub size: u64,
    /// SHA-256 of the file, or of all volumes one after another.
    pub digest: Digest,
}

/// Writes a bundle: under a temporary name beside `path` first, so that nothing half done ever
/// has the final name.
///
/// # Errors
/// A blob that is missing or not what the lock says, or a file system that fails.
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

/// As [`write`], until `stop` says so, which is asked again and again.
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

/// Makes the folder of a bundle and sees whether it takes files.
///
/// # Errors
/// It does not.
pub fn check_folder(path: &Path) -> Result<(), BundleError> {
    Output::create(path, None).map(|_| ())
}

/// What an error of the file system means to somebody who waits for a bundle.
fn explain(error: BundleError, stopped: bool, output: &Output, lock: &Lock) -> BundleError {
    match error {
        _ if stopped => BundleError::Stopped,
        BundleError::Io { path, source } if source.kind() == io::ErrorKind::StorageFull => {
            let content = content_size(lock.blobs());
            // What is written already is free again once the partial files are gone.
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

/// An error of the file system, or what a reader has hidden in it.
fn named(path: &str, source: io::Error) -> BundleError {
    match source.downcast::<BundleError>() {
        Ok(error) => error,
        Err(source) => BundleError::Io {
            path: path.to_owned(),
            source,
        },
    }
}

/// Where a bundle's frames go.
pub(super) struct Sink {
    out: DigestWriter<BufWriter<Output>>,
}

impl Sink {
    pub(super) fn create(path: &Path, volume: Option<u64>) -> Result<Self, BundleError> {
        let output = Output::create(path, volume)?;
        Ok(Self {
            // What comes from lanes passes through as it is.
            out: DigestWriter::new(BufWriter::with_capacity(1 << 18, output)),
        })
    }

    fn output(&self) -> &Output {
        self.out.inner().get_ref()
    }

    /// Ends the bundle with its table of frames.
    pub(super) fn end_table(&mut self, frames: &[Frame]) -> io::Result<()> {
        self.write_all(&seek_table::encode(frames))?;
        self.flush()
    }

    /// Gives the ended bundle its name.
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

/// The first frame of a bundle.
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
    // One level for all: signing a bundle later gives the same bytes.
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
        let mut head = oci_layout::head(self.lock)?;
        if let Signed::By(signer) = self.options.signed {
            head.sign(signer, &self.lock.name)?;
        }
        Ok(head)
    }

    /// Hands over all groups, and what ends the tar.
    fn feed(&self, feed: &FrameQueue) -> io::Result<()> {
        let all = self.lock.blobs();
        let carried = self.storage.groups.iter().flat_map(|group| &group.entries);
        let total = carried
            .filter_map(|entry| all.get(&entry.blob))
            .map(|blob| blob.size)
            .sum();
        let transfer = self.events.transfer("pack", &*self.path, Some(total));
        let label = |digest: &Digest| {
            all.get(digest)
                .map_or(String::new(), |blob| blob.label.clone())
        };
        for group in &self.storage.groups {
            let layout = GroupLayout::new(group, |digest| all.get(digest).map(|blob| blob.size))
                .ok_or_else(|| self.damaged("a blob is not in the lock"))?;
            let source = GroupSource::open(&layout, self.blobs, &label, &transfer, self.stop);
            self.group(feed, &layout, source.map_err(io::Error::other)?)?;
        }
        transfer.done();
        let trailer = [0u8; TRAILER as usize];
        feed.frame(&mut &trailer[..], TRAILER, Effort::least())
    }

    fn group(
        &self,
        feed: &FrameQueue,
        layout: &GroupLayout,
        mut source: GroupSource<'_>,
    ) -> io::Result<()> {
        let mut left = layout
            .plain()
            .ok_or_else(|| self.damaged("a group of impossible size"))?;
        let effort = match source.starts_compressed()? {
            true => Effort::least(),
            false => Effort::new(self.options.level, left, holds_kin(layout)),
        };
        while left > 0 {
            let plain = left.min(LARGEST_FRAME);
            feed.frame(&mut source, plain, effort)?;
            left -= plain;
        }
        // What it has read last is compared when the end is asked for.
        io::copy(&mut source, &mut io::sink()).map(|_| ())
    }

    fn damaged(&self, reason: &str) -> io::Error {
        io::Error::other(BundleError::Damaged {
            path: self.path.clone(),
            reason: reason.to_owned(),
        })
    }
}

/// Whether there is more than one program or file in a group: blobs, or what is in an archive.
fn holds_kin(layout: &GroupLayout) -> bool {
    let entries = layout.entries();
    entries.len() > 1 || entries.iter().any(|stored| stored.opened.is_some())
}

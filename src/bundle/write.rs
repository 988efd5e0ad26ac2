//! Packing: from a lock, an arrangement and a store of blobs to one file.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use zstd::zstd_safe::CParameter;

use super::frames::{self, Frame};
use super::lock::Lock;
use super::pieces::Layout;
use super::source::GroupSource;
use super::storage::Storage;
use super::{Blobs, BundleError, layout};
use crate::event::Events;
use crate::spec::{Digest, DigestWriter};

/// A frame holds at most this many plain bytes: sizes in the seek table have 32 bits.
pub(super) const LARGEST_FRAME: u64 = 1 << 30;
/// Largest window of a frame, as a power of two: what a reader needs of memory for each frame that
/// it reads.
pub(super) const WINDOW: u32 = 25;
/// Plain bytes of a frame from which on the long window is worth its time.
const FAR: u64 = 16 * 1024 * 1024;
/// Bytes that a thread compresses at a time, in frames with the long window: without it, zstd would
/// take four windows, and as much memory for each thread.
const JOB: u32 = 16 * 1024 * 1024;
/// More threads would take more memory than packing may.
const MOST_THREADS: u32 = 8;
/// The unit of a tar file in bytes.
pub(super) const TAR_BLOCK: u64 = 512;
/// Bytes of zeros that end a tar.
pub(super) const TRAILER: u64 = 2 * TAR_BLOCK;

/// How to pack.
#[derive(Debug, Clone, Copy)]
pub struct PackOptions {
    /// zstd level for what is not compressed already, 1 to 19.
    pub level: i32,
    /// Threads that compress; the result does not depend on it.
    pub threads: u32,
}

/// What was written.
#[derive(Debug, Clone, Copy)]
pub struct Written {
    /// Bytes of the file.
    pub size: u64,
    /// SHA-256 of the file.
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
    storage: &Storage,
    blobs: &dyn Blobs,
    options: PackOptions,
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
    storage: &Storage,
    blobs: &dyn Blobs,
    options: PackOptions,
    events: &Events,
    stop: &dyn Fn() -> bool,
) -> Result<Written, BundleError> {
    let io_error = |source| BundleError::Io {
        path: path.display().to_string(),
        source,
    };
    let (folder, partial) = partial_beside(path)?;
    let file = partial.as_file().try_clone().map_err(io_error)?;
    let mut packer = Packer {
        out: Counted {
            inner: DigestWriter::new(BufWriter::with_capacity(1 << 20, file)),
            bytes: 0,
        },
        frames: Vec::new(),
        options,
        path: path.display().to_string(),
        stop,
    };
    let written = packer
        .pack(lock, storage, blobs, events)
        .and_then(|()| packer.finish())
        .map_err(|error| explain(error, stop(), folder, &partial, lock))?;
    partial.as_file().sync_all().map_err(io_error)?;
    partial
        .persist(path)
        .map_err(|error| io_error(error.error))?;
    Ok(written)
}

/// Makes the folder of a bundle and sees whether it takes files.
///
/// # Errors
/// It does not.
pub fn check_folder(path: &Path) -> Result<(), BundleError> {
    partial_beside(path).map(|_| ())
}

/// A bundle's folder and a temporary file in it, which goes when it is dropped.
fn partial_beside(path: &Path) -> Result<(&Path, tempfile::NamedTempFile), BundleError> {
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let partial = std::fs::create_dir_all(folder).and_then(|()| {
        tempfile::Builder::new()
            .prefix(".kubexm-bundle-")
            .suffix(".partial")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .tempfile_in(folder)
    });
    match partial {
        Ok(partial) => Ok((folder, partial)),
        Err(source) => Err(BundleError::Folder {
            path: folder.display().to_string(),
            source,
        }),
    }
}

/// What an error of the file system means to somebody who waits for a bundle.
fn explain(
    error: BundleError,
    stopped: bool,
    folder: &Path,
    partial: &tempfile::NamedTempFile,
    lock: &Lock,
) -> BundleError {
    match error {
        _ if stopped => BundleError::Stopped,
        BundleError::Io { path, source } if source.kind() == io::ErrorKind::StorageFull => {
            let content: u64 = lock.blobs().values().map(|(size, _)| size).sum();
            // What is written already is free again once the partial file is gone.
            let written = partial.as_file().metadata().map_or(0, |file| file.len());
            let free = fs4::available_space(folder).map_or(0, |free| free + written);
            BundleError::Full {
                path,
                content,
                free,
            }
        }
        other => other,
    }
}

struct Packer<'a> {
    out: Counted<DigestWriter<BufWriter<File>>>,
    frames: Vec<Frame>,
    options: PackOptions,
    path: String,
    stop: &'a dyn Fn() -> bool,
}

impl Packer<'_> {
    fn pack(
        &mut self,
        lock: &Lock,
        storage: &Storage,
        blobs: &dyn Blobs,
        events: &Events,
    ) -> Result<(), BundleError> {
        let head = layout::head(lock, storage).map_err(|reason| self.damaged(&reason))?;
        let mut first = Vec::new();
        for (name, content) in [
            ("oci-layout".to_owned(), layout::LAYOUT.as_bytes()),
            ("index.json".to_owned(), &head.index),
            (
                layout::blob_path(&Digest::of(&head.manifest)),
                &head.manifest,
            ),
            (layout::blob_path(&Digest::of(&head.lock)), &head.lock),
            (layout::blob_path(&Digest::of(&head.storage)), &head.storage),
            (
                layout::blob_path(&Digest::of(layout::EMPTY_CONFIG)),
                layout::EMPTY_CONFIG,
            ),
        ] {
            first.extend_from_slice(&entry_header(&name, content.len() as u64));
            first.extend_from_slice(content);
            first.resize(first.len().next_multiple_of(TAR_BLOCK as usize), 0);
        }
        let effort = Effort::plain(self.options.level);
        self.frame(&mut &first[..], first.len() as u64, effort)?;

        let all = lock.blobs();
        let total = all.values().map(|(size, _)| size).sum();
        let transfer = events.transfer("pack", self.path.clone(), Some(total));
        let label = |digest: &Digest| all.get(digest).map_or(String::new(), |(_, l)| l.clone());
        for group in &storage.groups {
            let layout = Layout::new(group, |digest| all.get(digest).map(|(size, _)| *size))
                .ok_or_else(|| self.damaged("a blob is not in the lock"))?;
            let source = GroupSource::open(&layout, blobs, &label, &transfer, self.stop)?;
            self.group(&layout, source)?;
        }
        transfer.done();
        let trailer = [0u8; TRAILER as usize];
        self.frame(&mut &trailer[..], TRAILER, Effort::plain(1))
    }

    fn group(&mut self, layout: &Layout, mut source: GroupSource<'_>) -> Result<(), BundleError> {
        let mut left = layout
            .plain()
            .ok_or_else(|| self.damaged("a group of impossible size"))?;
        let compressed = source.starts_compressed().map_err(|e| self.io(e))?;
        let effort = Effort {
            level: if compressed { 1 } else { self.options.level },
            far: left >= FAR && !compressed,
        };
        while left > 0 {
            let plain = left.min(LARGEST_FRAME);
            self.frame(&mut source, plain, effort)?;
            left -= plain;
        }
        // What it has read last is compared when the end is asked for.
        io::copy(&mut source, &mut io::sink()).map_err(|error| self.io(error))?;
        Ok(())
    }

    /// One zstd frame of exactly `plain` bytes from `source`.
    fn frame(
        &mut self,
        source: &mut dyn Read,
        plain: u64,
        effort: Effort,
    ) -> Result<(), BundleError> {
        let before = self.out.bytes;
        let copied = compress(source, plain, &mut self.out, effort, self.options.threads)
            .map_err(|error| self.io(error))?;
        if copied != plain {
            return Err(self.damaged("a blob is shorter than the lock says"));
        }
        let packed = u32::try_from(self.out.bytes - before)
            .map_err(|_| self.damaged("a frame grew beyond 4 GiB"))?;
        self.frames.push(Frame {
            packed,
            plain: plain as u32,
        });
        Ok(())
    }

    fn finish(mut self) -> Result<Written, BundleError> {
        let table = frames::encode(&self.frames);
        self.out
            .write_all(&table)
            .and_then(|()| self.out.flush())
            .map_err(|error| BundleError::Io {
                path: self.path.clone(),
                source: error,
            })?;
        let (_, digest, size) = self.out.inner.finish();
        Ok(Written { size, digest })
    }

    fn io(&self, source: io::Error) -> BundleError {
        match source.downcast::<BundleError>() {
            Ok(error) => error,
            Err(source) => BundleError::Io {
                path: self.path.clone(),
                source,
            },
        }
    }

    fn damaged(&self, reason: &str) -> BundleError {
        BundleError::Damaged {
            path: self.path.clone(),
            reason: reason.to_owned(),
        }
    }
}

/// How hard a frame is compressed.
#[derive(Debug, Clone, Copy)]
struct Effort {
    level: i32,
    /// Whether to look for what was there long ago.
    far: bool,
}

impl Effort {
    fn plain(level: i32) -> Self {
        Self { level, far: false }
    }
}

/// Compresses `plain` bytes as one frame. There is always at least one worker thread: zstd's
/// threaded output differs from its single-threaded one, but not with the number of threads.
fn compress(
    source: &mut dyn Read,
    plain: u64,
    out: &mut dyn Write,
    effort: Effort,
    threads: u32,
) -> io::Result<u64> {
    let mut encoder = zstd::Encoder::new(out, effort.level)?;
    encoder.multithread(threads.clamp(1, MOST_THREADS))?;
    encoder.include_checksum(true)?;
    encoder.set_pledged_src_size(Some(plain))?;
    if effort.far {
        encoder.long_distance_matching(true)?;
        encoder.window_log(WINDOW)?;
        encoder.set_parameter(CParameter::JobSize(JOB))?;
    }
    let mut source = BufReader::with_capacity(1 << 18, source.take(plain));
    let copied = io::copy(&mut source, &mut encoder)?;
    if copied == plain {
        encoder.finish()?;
    }
    Ok(copied)
}

/// A tar header with nothing of this machine in it.
pub(super) fn entry_header(name: &str, size: u64) -> [u8; TAR_BLOCK as usize] {
    let mut header = tar::Header::new_gnu();
    // Names are `oci-layout`, `index.json` and `blobs/sha256/…`: always valid, always short.
    let _ = header.set_path(name);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_entry_type(tar::EntryType::Regular);
    header.set_cksum();
    *header.as_bytes()
}

struct Counted<W> {
    inner: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(buffer)?;
        self.bytes += count as u64;
        Ok(count)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

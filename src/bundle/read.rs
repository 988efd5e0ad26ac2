//! Opening: the index and the lock first, then any blob by its digest.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::frames::{self, FOOTER, Frame};
use super::lock::Lock;
use super::write::{LARGEST_FRAME, TAR_BLOCK, entry_header};
use super::{Blobs, BundleError, head, layout};
use crate::event::Events;
use crate::spec::{Digest, DigestReader};

/// The first frame holds index and lock; more than this is no bundle.
const LARGEST_HEAD: u64 = 64 * 1024 * 1024;
/// A seek table larger than this is no bundle's.
const LARGEST_TABLE: u64 = 16 * 1024 * 1024;
/// Largest window that a frame may ask of our memory, as a power of two.
const LARGEST_WINDOW: u32 = 27;

/// An opened bundle. Cheap to read from many threads: each blob is opened on a handle of its own.
#[derive(Debug)]
pub struct Bundle {
    path: PathBuf,
    size: u64,
    lock: Lock,
    lock_digest: Digest,
    places: BTreeMap<Digest, Place>,
    trailer: Place,
}

/// Where a blob's frames are.
#[derive(Debug, Clone, Copy)]
struct Place {
    offset: u64,
    packed: u64,
    size: u64,
}

impl Bundle {
    /// Opens a bundle and reads its index and lock; blobs are checked when they are read.
    ///
    /// # Errors
    /// The file is no bundle, is cut off, or its head contradicts itself.
    pub fn open(path: &Path) -> Result<Self, BundleError> {
        let damaged = |reason: &str| BundleError::Damaged {
            path: path.display().to_string(),
            reason: reason.to_owned(),
        };
        let io = |source| BundleError::Io {
            path: path.display().to_string(),
            source,
        };
        // Asked before it is opened: opening a pipe would wait for somebody to write into it.
        let metadata = std::fs::metadata(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => BundleError::NoFile {
                path: path.display().to_string(),
            },
            _ => io(source),
        })?;
        if !metadata.is_file() {
            return Err(damaged(
                "is no regular file; give the path of a bundle, as in bundles/kubernetes-1.36.tar.zst",
            ));
        }
        let file = File::open(path).map_err(io)?;
        let size = metadata.len();
        let frames = read_table(&file, size)
            .map_err(io)?
            .map_err(|reason| damaged(&reason))?;
        let head_frame = frames.first().ok_or_else(|| damaged("holds nothing"))?;
        if u64::from(head_frame.plain) > LARGEST_HEAD {
            return Err(damaged(
                "has an index of impossible size; copy the bundle again",
            ));
        }
        let packed = section(file, 0, u64::from(head_frame.packed)).map_err(io)?;
        let plain = u64::from(head_frame.plain);
        let mut head = Vec::new();
        decoder(packed)
            .and_then(|decoder| decoder.take(plain + 1).read_to_end(&mut head))
            .map_err(|_| damaged("its index cannot be read; copy the bundle again"))?;
        if head.len() as u64 != plain {
            return Err(damaged(
                "its index is not as long as its table says; copy the bundle again",
            ));
        }
        let (lock, lock_digest) = head::read(&head).map_err(|reason| damaged(&reason))?;
        let (places, trailer) = locate(&lock, &frames).map_err(|reason| damaged(&reason))?;
        Ok(Self {
            path: path.to_owned(),
            size,
            lock,
            lock_digest,
            places,
            trailer,
        })
    }

    /// What is in it.
    pub fn lock(&self) -> &Lock {
        &self.lock
    }

    /// SHA-256 of the lock: names the content.
    pub fn lock_digest(&self) -> Digest {
        self.lock_digest
    }

    /// Bytes of the file.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads every blob and compares its digest, on `threads` threads.
    ///
    /// # Errors
    /// All blobs that are damaged, in one message.
    pub fn verify(&self, threads: usize, events: &Events) -> Result<(), BundleError> {
        let all: Vec<_> = self.lock.blobs().into_iter().collect();
        let total = all.iter().map(|(_, (size, _))| size).sum();
        let transfer = events.transfer("verify", self.path.display().to_string(), Some(total));
        let next = AtomicUsize::new(0);
        let bad = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..threads.max(1) {
                scope.spawn(|| {
                    while let Some((digest, (size, label))) =
                        all.get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        let read = self
                            .open_blob(digest)
                            .and_then(|mut blob| io::copy(&mut blob, &mut io::sink()));
                        transfer.advance(*size);
                        if let (Err(error), Ok(mut bad)) = (read, bad.lock()) {
                            bad.push(format!("{label} ({digest}): {error}"));
                        }
                    }
                });
            }
        });
        let mut bad = bad.into_inner().unwrap_or_default();
        let Place {
            offset,
            packed,
            size,
        } = self.trailer;
        let end = File::open(&self.path)
            .and_then(|file| decoder(section(file, offset, packed)?))
            .and_then(|end| zeros(end, size));
        if end.is_err() {
            bad.push("the end of the tar".to_owned());
        }
        if bad.is_empty() {
            transfer.done();
            return Ok(());
        }
        bad.sort();
        let list = bad.join("\n  ");
        let reason = format!(
            "{} of {} parts are damaged; copy the bundle again:\n  {list}",
            bad.len(),
            all.len() + 1
        );
        Err(BundleError::Damaged {
            path: self.path.display().to_string(),
            reason,
        })
    }

    fn open_blob(&self, digest: &Digest) -> io::Result<Box<dyn Read + Send>> {
        let place = self
            .places
            .get(digest)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "not in the bundle"))?;
        let mut plain = decoder(section(
            File::open(&self.path)?,
            place.offset,
            place.packed,
        )?)?;
        let mut header = [0u8; TAR_BLOCK as usize];
        plain.read_exact(&mut header)?;
        if header != entry_header(&layout::blob_path(digest), place.size) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "another blob lies in its place",
            ));
        }
        Ok(Box::new(Verified::new(plain, *digest, place.size)))
    }
}

impl Blobs for Bundle {
    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        self.open_blob(digest)
            .map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => BundleError::Missing(format!("blob {digest}")),
                _ => BundleError::Io {
                    path: self.path.display().to_string(),
                    source,
                },
            })
    }
}

type Section = io::Take<BufReader<File>>;

fn section(mut file: File, offset: u64, length: u64) -> io::Result<Section> {
    file.seek(SeekFrom::Start(offset))?;
    Ok(BufReader::with_capacity(1 << 17, file).take(length))
}

fn decoder(packed: Section) -> io::Result<zstd::Decoder<'static, BufReader<Section>>> {
    let mut decoder = zstd::Decoder::new(packed)?;
    decoder.window_log_max(LARGEST_WINDOW)?;
    Ok(decoder)
}

/// The frames of a bundle, or why it is none.
fn read_table(file: &File, size: u64) -> io::Result<Result<Vec<Frame>, String>> {
    let cut_off = "is cut off or no kubexm bundle; copy it again and compare its size";
    let mut magic = [0u8; 4];
    if size == 0 {
        return Ok(Err("is empty; copy the bundle again".to_owned()));
    }
    if size < 64 {
        return Ok(Err(cut_off.to_owned()));
    }
    file.read_exact_at(&mut magic, 0)?;
    if magic != [0x28, 0xb5, 0x2f, 0xfd] {
        return Ok(Err(
            "is no kubexm bundle (not compressed by zstd); give a file that `kubexm bundle build` wrote".to_owned()
        ));
    }
    let mut footer = [0u8; FOOTER];
    file.read_exact_at(&mut footer, size - FOOTER as u64)?;
    let Some(length) = frames::table_length(&footer).filter(|l| *l <= LARGEST_TABLE && *l < size)
    else {
        return Ok(Err(cut_off.to_owned()));
    };
    let mut table = vec![0u8; length as usize];
    file.read_exact_at(&mut table, size - length)?;
    let frames = frames::decode(&table)
        .filter(|frames| frames.iter().map(|f| u64::from(f.packed)).sum::<u64>() == size - length);
    Ok(frames.ok_or_else(|| "has a table that does not fit the file; copy it again".to_owned()))
}

/// Where each blob lies, by the order in which bundles are written, and the tar's end.
fn locate(lock: &Lock, frames: &[Frame]) -> Result<(BTreeMap<Digest, Place>, Place), String> {
    let mismatch = || "its table does not fit its lock; copy the bundle again".to_owned();
    let mut offset = u64::from(frames.first().ok_or_else(mismatch)?.packed);
    let mut rest = frames.iter().skip(1);
    let mut places = BTreeMap::new();
    for (digest, (size, _)) in lock.blobs() {
        let mut left = size
            .checked_next_multiple_of(TAR_BLOCK)
            .and_then(|padded| padded.checked_add(TAR_BLOCK))
            .ok_or_else(mismatch)?;
        let start = offset;
        while left > 0 {
            let frame = rest.next().ok_or_else(mismatch)?;
            if u64::from(frame.plain) != left.min(LARGEST_FRAME) {
                return Err(mismatch());
            }
            left -= u64::from(frame.plain);
            offset += u64::from(frame.packed);
        }
        places.insert(
            digest,
            Place {
                offset: start,
                packed: offset - start,
                size,
            },
        );
    }
    match (rest.next(), rest.next()) {
        (Some(trailer), None) if u64::from(trailer.plain) == 2 * TAR_BLOCK => {
            let trailer = Place {
                offset,
                packed: u64::from(trailer.packed),
                size: u64::from(trailer.plain),
            };
            Ok((places, trailer))
        }
        _ => Err(mismatch()),
    }
}

/// A blob's bytes, held against its digest when the last one is read.
struct Verified<R> {
    inner: Option<DigestReader<io::Take<R>>>,
    digest: Digest,
    size: u64,
}

impl<R: Read> Verified<R> {
    fn new(inner: R, digest: Digest, size: u64) -> Self {
        Self {
            inner: Some(DigestReader::new(inner.take(size))),
            digest,
            size,
        }
    }
}

impl<R: Read> Read for Verified<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(inner) = &mut self.inner else {
            return Ok(0);
        };
        let count = inner.read(buffer)?;
        if count > 0 || buffer.is_empty() {
            return Ok(count);
        }
        let Some(inner) = self.inner.take() else {
            return Ok(0);
        };
        let (rest, digest, size) = inner.into_parts();
        if size != self.size || digest != self.digest {
            let words = format!("damaged: expected {}, got {digest}", self.digest);
            return Err(io::Error::new(io::ErrorKind::InvalidData, words));
        }
        let padding = size.next_multiple_of(TAR_BLOCK) - size;
        zeros(rest.into_inner(), padding)?;
        Ok(0)
    }
}

/// Reads on to the end, so that the frames' own checksums are held against what was read; there
/// must be so many zeros and nothing else, and not one byte more is taken.
fn zeros(rest: impl Read, count: u64) -> io::Result<()> {
    let mut read = Vec::new();
    rest.take(count + 1).read_to_end(&mut read)?;
    if read.len() as u64 == count && read.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    let words = "damaged: something else follows it";
    Err(io::Error::new(io::ErrorKind::InvalidData, words))
}

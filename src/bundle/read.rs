//! Opening: the index and the lock first, then any blob by its digest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;

use super::frames::{self, FOOTER, Frame};
use super::group::{self, EntryReader, GroupReader, Place};
use super::head::{self, Head};
use super::lock::Lock;
use super::pieces::{Layout, Stored};
use super::remade::{Remade, Verified};
use super::write::{LARGEST_FRAME, TRAILER};
use super::{Blobs, BundleError, Take, stream};
use crate::spec::Digest;

/// The first frame holds index and lock; more than this is no bundle.
const LARGEST_HEAD: u64 = 64 * 1024 * 1024;
/// A seek table larger than this is no bundle's.
const LARGEST_TABLE: u64 = 16 * 1024 * 1024;
/// An opened bundle. Cheap to read from many threads: each reader has a handle of its own.
#[derive(Debug)]
pub struct Bundle {
    path: PathBuf,
    size: u64,
    lock: Lock,
    lock_digest: Digest,
    groups: Vec<Placed>,
    /// Group and entry of each blob.
    places: BTreeMap<Digest, (usize, usize)>,
    trailer: Place,
}

/// A group and where its frames are.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) place: Place,
    pub(super) layout: Arc<Layout>,
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
        let place = Place {
            offset: 0,
            packed: u64::from(head_frame.packed),
        };
        let plain = u64::from(head_frame.plain);
        let mut head = Vec::new();
        group::decoder(path, place)
            .and_then(|decoder| decoder.take(plain + 1).read_to_end(&mut head))
            .map_err(|_| damaged("its index cannot be read; copy the bundle again"))?;
        if head.len() as u64 != plain {
            return Err(damaged(
                "its index is not as long as its table says; copy the bundle again",
            ));
        }
        let head = head::read(&head).map_err(|reason| damaged(&reason))?;
        let (groups, trailer) = locate(&head, &frames).map_err(|reason| damaged(&reason))?;
        let mut places = BTreeMap::new();
        for (number, group) in groups.iter().enumerate() {
            for (entry, stored) in group.layout.entries().iter().enumerate() {
                places.insert(stored.blob, (number, entry));
            }
        }
        Ok(Self {
            path: path.to_owned(),
            size,
            lock: head.lock,
            lock_digest: head.lock_digest,
            groups,
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

    pub(super) fn groups(&self) -> &[Placed] {
        &self.groups
    }

    pub(super) fn trailer(&self) -> Place {
        self.trailer
    }

    pub(super) fn read_group(&self, group: &Placed) -> io::Result<GroupReader> {
        GroupReader::open(&self.path, group.place, Arc::clone(&group.layout))
    }

    /// What lies in the file for a blob, and how the blob is made of it.
    fn stored(&self, digest: &Digest) -> io::Result<(EntryReader, &Stored)> {
        let (group, entry) = self
            .places
            .get(digest)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "not in the bundle"))?;
        let group = &self.groups[*group];
        let reader = EntryReader::new(self.read_group(group)?, *entry);
        Ok((reader, &group.layout.entries()[*entry]))
    }

    fn open_blob(&self, digest: &Digest) -> io::Result<Box<dyn Read + Send>> {
        let (reader, stored) = self.stored(digest)?;
        Ok(match &stored.opened {
            None => Box::new(Verified::new(reader, stored.blob, stored.size)),
            Some(opened) => {
                let made = Remade::new(reader, &opened.recipe);
                Box::new(Verified::new(made, stored.blob, stored.size))
            }
        })
    }

    fn open_content(&self, digest: &Digest) -> io::Result<Box<dyn Read + Send>> {
        let (reader, stored) = self.stored(digest)?;
        let verified = Verified::new(reader, stored.stored_digest(), stored.stored_size());
        Ok(match &stored.opened {
            None => Box::new(MultiGzDecoder::new(verified)),
            Some(_) => Box::new(verified),
        })
    }

    fn explain(&self, digest: &Digest, source: io::Error) -> BundleError {
        match source.kind() {
            io::ErrorKind::NotFound => BundleError::Missing(format!("blob {digest}")),
            _ => BundleError::Io {
                path: self.path.display().to_string(),
                source,
            },
        }
    }
}

impl Blobs for Bundle {
    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        self.open_blob(digest).map_err(|e| self.explain(digest, e))
    }

    fn open_inside(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        self.open_content(digest)
            .map_err(|e| self.explain(digest, e))
    }

    fn stream(&self, wanted: &BTreeSet<Digest>, take: &mut Take<'_>) -> io::Result<()> {
        stream::stream(self, wanted, take)
    }
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

/// Where each group lies, by the order in which bundles are written, and the tar's end.
fn locate(head: &Head, frames: &[Frame]) -> Result<(Vec<Placed>, Place), String> {
    let mismatch = || "its table does not fit its lock; copy the bundle again".to_owned();
    let sizes = head.lock.blobs();
    let mut offset = u64::from(frames.first().ok_or_else(mismatch)?.packed);
    let mut rest = frames.iter().skip(1);
    let mut groups = Vec::new();
    for group in &head.storage.groups {
        let layout = Layout::new(group, |digest| sizes.get(digest).map(|(size, _)| *size))
            .ok_or_else(mismatch)?;
        let mut left = layout.plain().ok_or_else(mismatch)?;
        let start = offset;
        while left > 0 {
            let frame = rest.next().ok_or_else(mismatch)?;
            if u64::from(frame.plain) != left.min(LARGEST_FRAME) {
                return Err(mismatch());
            }
            left -= u64::from(frame.plain);
            offset += u64::from(frame.packed);
        }
        groups.push(Placed {
            place: Place {
                offset: start,
                packed: offset - start,
            },
            layout: Arc::new(layout),
        });
    }
    match (rest.next(), rest.next()) {
        (Some(trailer), None) if u64::from(trailer.plain) == TRAILER => {
            let trailer = Place {
                offset,
                packed: u64::from(trailer.packed),
            };
            Ok((groups, trailer))
        }
        _ => Err(mismatch()),
    }
}

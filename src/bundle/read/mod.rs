//! Opening: the index and the lock first, then any blob by its digest.

pub(crate) mod bundle_set;
pub(crate) mod contents;
pub mod extract;
pub(crate) mod group;
pub mod publishers;
mod stream;
mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;

use super::format::tar_entry::TRAILER;
use super::lock::Lock;
use super::write::LARGEST_FRAME;
use super::{Blobs, BundleError, Held, Take, signature};
use crate::codec::elf;
use crate::codec::elf::ElfFilterReader;
use crate::codec::recompress::{RecompressingReader, Verified};
use crate::format::chunks::{GroupLayout, StoredBlob};
use crate::format::header;
use crate::format::header::{BundleHeader, HeaderError};
use crate::format::oci_layout;
use crate::format::placement::{Base, DecompressedGzip, Placement};
use crate::format::seek_table;
use crate::format::seek_table::{FOOTER, Frame};
use crate::format::volumes::VolumeSet;
use crate::read::group::{EntryReader, GroupReader, Place};
use kubexm_types::{Digest, PublicKey};

/// The first frame holds index and lock; more than this is no bundle.
const LARGEST_HEAD: u64 = 64 * 1024 * 1024;
/// A seek table larger than this is no bundle's.
const LARGEST_TABLE: u64 = 16 * 1024 * 1024;

/// How a bundle is opened.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Where volumes are looked for, beside the folder of the one that was named.
    pub folders: Vec<PathBuf>,
    /// Keys of which one must have signed; anybody's bundle is taken where there are none.
    pub trust: Vec<PublicKey>,
}

/// An opened bundle. Cheap to read from many threads: each reader has a handle of its own.
#[derive(Debug)]
pub struct Bundle {
    medium: VolumeSet,
    head: BundleHeader,
    groups: Vec<Placed>,
    /// Group and entry of each blob.
    places: BTreeMap<Digest, (usize, usize)>,
    frames: Vec<Frame>,
}

/// A group and where its frames are.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) place: Place,
    pub(super) layout: Arc<GroupLayout>,
}

impl Bundle {
    /// Opens a bundle, whoever made it, as [`Bundle::open_with`] does.
    ///
    /// # Errors
    /// As there.
    pub fn open(path: &Path) -> Result<Self, BundleError> {
        Self::open_with(path, &Access::default())
    }

    /// Opens a bundle, given its file or one of its volumes, and reads its index and lock; blobs are
    /// checked when they are read.
    ///
    /// # Errors
    /// The file is no bundle, is cut off, its head contradicts itself, or nobody who is trusted
    /// signed it.
    pub fn open_with(path: &Path, access: &Access) -> Result<Self, BundleError> {
        let medium = VolumeSet::find(path, &access.folders)?;
        let name = medium.name().display().to_string();
        let damaged = |reason: String| BundleError::Damaged {
            path: name.clone(),
            reason,
        };
        let io = |source| BundleError::Io {
            path: name.clone(),
            source,
        };
        let frames = read_table(&medium).map_err(io)?.map_err(damaged)?;
        let head = read_head(&medium, &frames, &access.trust).map_err(|bad| match bad {
            HeaderError::Damaged(reason) => damaged(reason),
            HeaderError::Untrusted(reason) => BundleError::Untrusted {
                path: name.clone(),
                reason,
            },
        })?;
        let groups = locate(&head, &frames).map_err(damaged)?;
        let mut places = BTreeMap::new();
        for (number, group) in groups.iter().enumerate() {
            for (entry, stored) in group.layout.entries().iter().enumerate() {
                places.insert(stored.blob, (number, entry));
            }
        }
        Ok(Self {
            medium,
            head,
            groups,
            places,
            frames,
        })
    }

    /// What is in it, what it leans on included.
    pub fn lock(&self) -> &Lock {
        &self.head.lock
    }

    /// SHA-256 of the lock: names the content.
    pub fn lock_digest(&self) -> Digest {
        self.head.lock_digest
    }

    /// Set where it carries only what another bundle or a site lacks.
    pub fn base(&self) -> Option<&Base> {
        self.head.storage.base.as_ref()
    }

    /// The number of the key that signed it, as minisign shows it. That says nothing where no key was
    /// asked for.
    pub fn signed_by(&self) -> Option<String> {
        let text = std::str::from_utf8(self.head.texts.signature.as_deref()?).ok()?;
        signature::key_id(text)
    }

    /// The texts that stand first in it.
    pub fn texts(&self) -> &oci_layout::Documents {
        &self.head.texts
    }

    /// How its blobs lie in it.
    pub fn storage(&self) -> &Placement {
        &self.head.storage
    }

    /// Bytes of the file, or of all volumes.
    pub fn size(&self) -> u64 {
        self.medium.size()
    }

    /// How many volumes there are; `None` where it was not split.
    pub fn volumes(&self) -> Option<usize> {
        self.medium.volumes()
    }

    /// The file, or the name that its volumes have without their numbers.
    pub fn path(&self) -> &Path {
        self.medium.name()
    }

    /// Whether the blob lies in this very file.
    pub fn carries(&self, digest: &Digest) -> bool {
        self.places.contains_key(digest)
    }

    /// The blobs that lie in this very file.
    pub fn carried(&self) -> impl Iterator<Item = &Digest> {
        self.places.keys()
    }

    /// How a blob is held opened up, where it is.
    pub fn opened(&self, digest: &Digest) -> Option<&DecompressedGzip> {
        let (group, entry) = self.places.get(digest)?;
        let stored = self.groups.get(*group)?.layout.entries().get(*entry)?;
        stored.opened.as_ref()
    }

    pub(super) fn groups(&self) -> &[Placed] {
        &self.groups
    }

    pub(super) fn frames(&self) -> &[Frame] {
        &self.frames
    }

    pub(super) fn medium(&self) -> &VolumeSet {
        &self.medium
    }

    /// Where the tar's end lies.
    pub(super) fn trailer(&self) -> Place {
        let packed = self
            .frames
            .last()
            .map_or(0, |frame| u64::from(frame.packed));
        let all: u64 = self.frames.iter().map(|f| u64::from(f.packed)).sum();
        Place {
            offset: all - packed,
            packed,
        }
    }

    pub(super) fn read_group(&self, group: &Placed) -> io::Result<GroupReader> {
        GroupReader::open(&self.medium, group.place, Arc::clone(&group.layout))
    }

    /// What lies in the file for a blob, filters undone, and how the blob is made of it.
    fn stored(&self, digest: &Digest) -> io::Result<(ElfFilterReader<EntryReader>, &StoredBlob)> {
        let (group, entry) = self
            .places
            .get(digest)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "not in the bundle"))?;
        let group = &self.groups[*group];
        let reader = EntryReader::new(self.read_group(group)?, *entry);
        let stored = &group.layout.entries()[*entry];
        Ok((elf::unpacked(reader, stored), stored))
    }

    fn open_blob(&self, digest: &Digest) -> io::Result<Box<dyn Read + Send>> {
        let (reader, stored) = self.stored(digest)?;
        Ok(match &stored.opened {
            None => Box::new(Verified::new(reader, stored.blob, stored.size)),
            Some(opened) => {
                let made = RecompressingReader::new(reader, &opened.recipe);
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
            _ => BundleError::io(self.path(), source),
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

    fn open_held(&self, digest: &Digest, opened: &DecompressedGzip) -> Result<Held, BundleError> {
        match self.opened(digest) {
            Some(own) if own == opened => {
                let (reader, stored) = self.stored(digest).map_err(|e| self.explain(digest, e))?;
                let (content, size) = (stored.stored_digest(), stored.stored_size());
                Ok(Some(Box::new(Verified::new(reader, content, size))))
            }
            _ => Ok(None),
        }
    }

    fn stream(&self, wanted: &BTreeSet<Digest>, take: &mut Take<'_>) -> io::Result<()> {
        stream::stream(self, wanted, take)
    }
}

/// The frames of a bundle, or why it is none.
fn read_table(medium: &VolumeSet) -> io::Result<Result<Vec<Frame>, String>> {
    let size = medium.size();
    let cut_off = || match medium.perhaps_not_last() {
        Some(last) => format!(
            "is cut off after {}: copy the volumes that follow beside it, with their list",
            last.display()
        ),
        None => "is cut off or no kubexm bundle; copy it again and compare its size".to_owned(),
    };
    let mut magic = [0u8; 4];
    if size == 0 {
        return Ok(Err("is empty; copy the bundle again".to_owned()));
    }
    if size < 64 {
        return Ok(Err(cut_off()));
    }
    medium.read_exact_at(&mut magic, 0)?;
    if magic != [0x28, 0xb5, 0x2f, 0xfd] {
        return Ok(Err(
            "is no kubexm bundle (not compressed by zstd); give a file that `kubexm bundle build` wrote".to_owned()
        ));
    }
    let mut footer = [0u8; FOOTER];
    medium.read_exact_at(&mut footer, size - FOOTER as u64)?;
    let Some(length) =
        seek_table::table_length(&footer).filter(|l| *l <= LARGEST_TABLE && *l < size)
    else {
        return Ok(Err(cut_off()));
    };
    let mut table = vec![0u8; length as usize];
    medium.read_exact_at(&mut table, size - length)?;
    let frames = seek_table::decode(&table)
        .filter(|frames| frames.iter().map(|f| u64::from(f.packed)).sum::<u64>() == size - length);
    Ok(frames.ok_or_else(|| "has a table that does not fit the file; copy it again".to_owned()))
}

/// What the first frame says.
fn read_head(
    medium: &VolumeSet,
    frames: &[Frame],
    trust: &[PublicKey],
) -> Result<BundleHeader, HeaderError> {
    let frame = frames.first().ok_or("holds nothing")?;
    let plain = u64::from(frame.plain);
    if plain > LARGEST_HEAD {
        return Err("has an index of impossible size; copy the bundle again".into());
    }
    let place = Place {
        offset: 0,
        packed: u64::from(frame.packed),
    };
    let mut head = Vec::new();
    group::decoder(medium, place)
        .and_then(|decoder| decoder.take(plain + 1).read_to_end(&mut head))
        .map_err(|_| "its index cannot be read; copy the bundle again")?;
    if head.len() as u64 != plain {
        return Err("its index is not as long as its table says; copy the bundle again".into());
    }
    header::read(&head, trust)
}

/// Where each group lies, by the order in which bundles are written.
fn locate(head: &BundleHeader, frames: &[Frame]) -> Result<Vec<Placed>, String> {
    let mismatch = || "its table does not fit its lock; copy the bundle again".to_owned();
    let sizes = head.lock.blobs();
    let mut offset = u64::from(frames.first().ok_or_else(mismatch)?.packed);
    let mut rest = frames.iter().skip(1);
    let mut groups = Vec::new();
    for group in &head.storage.groups {
        let layout = GroupLayout::new(group, |digest| sizes.get(digest).map(|blob| blob.size))
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
        (Some(trailer), None) if u64::from(trailer.plain) == TRAILER => Ok(groups),
        _ => Err(mismatch()),
    }
}

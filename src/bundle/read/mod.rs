//! Opens bundles: reads the header, and then any blob by its digest.

pub(crate) mod bundle_set;
pub(crate) mod contents;
pub mod extract;
mod frames;
pub(crate) mod group;
pub mod publishers;
mod stream;
pub mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;

use super::lock::Lock;
use super::{Blobs, BundleError, BundleSignature, PartHandler, StoredContent};
use crate::codec::elf;
use crate::codec::elf::ElfFilterReader;
use crate::codec::recompress::{RecompressingReader, Verified};
use crate::format::chunks::{GroupLayout, StoredBlob};
use crate::format::header::{BundleHeader, HeaderError};
use crate::format::oci_layout;
use crate::format::placement::{Base, DecompressedGzip, Placement};
use crate::format::seek_table::Frame;
use crate::format::volumes::VolumeSet;
use crate::read::frames::{locate, read_header, read_seek_table};
use crate::read::group::{EntryReader, FrameRange, GroupReader};
use kubexm_types::{Digest, Message, PublicKey};

/// How to open a bundle.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Directories with volumes, in addition to the directory of the given file.
    pub folders: Vec<PathBuf>,
    /// Trusted keys, of which one must have signed the bundle. Empty accepts every bundle.
    pub trust: Vec<PublicKey>,
}

/// An opened bundle. Many threads can read it, because each reader has its own file handle.
#[derive(Debug)]
pub struct Bundle {
    volumes: VolumeSet,
    header: BundleHeader,
    groups: Vec<LocatedGroup>,
    /// Indexes of the group and the entry of each blob.
    entries: BTreeMap<Digest, (usize, usize)>,
    frames: Vec<Frame>,
}

/// A group and the position of its frames.
#[derive(Debug, Clone)]
pub(super) struct LocatedGroup {
    pub(super) frames: FrameRange,
    /// The indexes of its frames in the seek table.
    indexes: Range<usize>,
    pub(super) layout: Arc<GroupLayout>,
}

impl Bundle {
    /// Opens a bundle without a check of its signature.
    ///
    /// # Errors
    /// As [`Bundle::open_with`].
    pub fn open(path: &Path) -> Result<Self, BundleError> {
        Self::open_with(path, &Access::default())
    }

    /// Opens a bundle by the path of its file or of one of its volumes, and reads its header. Blobs are
    /// verified when they are read.
    ///
    /// # Errors
    /// The file is not a bundle or is truncated, the header is invalid, or no trusted key signed it.
    pub fn open_with(path: &Path, access: &Access) -> Result<Self, BundleError> {
        let volumes = VolumeSet::find(path, &access.folders)?;
        let name = volumes.name().display().to_string();
        let damaged = |reason: Message| BundleError::Damaged {
            path: name.clone(),
            reason,
        };
        let io = |source| BundleError::Io {
            path: name.clone(),
            source,
        };
        let frames = read_seek_table(&volumes).map_err(io)?.map_err(damaged)?;
        let header = read_header(&volumes, &frames, &access.trust).map_err(|bad| match bad {
            HeaderError::Damaged(reason) => damaged(reason),
            HeaderError::Untrusted(reason) => BundleError::Untrusted {
                path: name.clone(),
                reason,
            },
        })?;
        let groups = locate(&header, &frames).map_err(damaged)?;
        let mut entries = BTreeMap::new();
        for (number, group) in groups.iter().enumerate() {
            for (entry, stored) in group.layout.entries().iter().enumerate() {
                entries.insert(stored.blob, (number, entry));
            }
        }
        Ok(Self {
            volumes,
            header,
            groups,
            entries,
            frames,
        })
    }

    /// Returns the lock. In an incremental bundle it also lists the blobs of the base.
    pub fn lock(&self) -> &Lock {
        &self.header.lock
    }

    /// Returns the SHA-256 of the lock, which identifies the content of the bundle.
    pub fn lock_digest(&self) -> Digest {
        self.header.lock_digest
    }

    /// Returns the base of an incremental bundle.
    pub fn base(&self) -> Option<&Base> {
        self.header.storage.base.as_ref()
    }

    /// Returns the signature. Without trusted keys it was not verified.
    pub fn signature(&self) -> Option<&BundleSignature> {
        self.header.signature.as_ref()
    }

    /// Returns the documents of the header: index, signature, artifact manifest and lock.
    pub fn documents(&self) -> &oci_layout::Documents {
        &self.header.documents
    }

    /// Returns the placement document.
    pub fn storage(&self) -> &Placement {
        &self.header.storage
    }

    /// Returns the size of the file or of all volumes, in bytes.
    pub fn size(&self) -> u64 {
        self.volumes.size()
    }

    /// Returns the number of volumes; `None` for a single file.
    pub fn volume_count(&self) -> Option<usize> {
        self.volumes.count()
    }

    /// Returns the path of the file, or the path of the volumes without their numbers.
    pub fn path(&self) -> &Path {
        self.volumes.name()
    }

    /// Returns whether the blob is in this file and not in its base.
    pub fn carries(&self, digest: &Digest) -> bool {
        self.entries.contains_key(digest)
    }

    /// Returns the blobs in this file, without those of its base.
    pub fn carried(&self) -> impl Iterator<Item = &Digest> {
        self.entries.keys()
    }

    /// Returns whether the builder made the blob from this content with this recipe. The signature of the
    /// bundle covers the answer, if there is one and it is verified.
    pub fn proves(&self, blob: &Digest, opened: &DecompressedGzip) -> bool {
        self.header.recompression.proves(blob, opened)
    }

    /// Returns the content and the recipe of a blob that is stored as decompressed gzip.
    pub fn opened(&self, digest: &Digest) -> Option<&DecompressedGzip> {
        let (group, entry) = self.entries.get(digest)?;
        let stored = self.groups.get(*group)?.layout.entries().get(*entry)?;
        stored.opened.as_ref()
    }

    pub(super) fn groups(&self) -> &[LocatedGroup] {
        &self.groups
    }

    /// Returns the frames of the group with this content and order, and their position, if there is one.
    pub(super) fn packed_group(&self, layout: &GroupLayout) -> Option<(FrameRange, &[Frame])> {
        let first = layout.entries().first()?;
        let (group, _) = self.entries.get(&first.blob)?;
        let group = self.groups.get(*group)?;
        let frames = self.frames.get(group.indexes.clone())?;
        (*group.layout == *layout).then_some((group.frames, frames))
    }

    pub(super) fn frames(&self) -> &[Frame] {
        &self.frames
    }

    pub(super) fn volumes(&self) -> &VolumeSet {
        &self.volumes
    }

    /// Returns the position of the end frame.
    pub(super) fn end_frame(&self) -> FrameRange {
        let packed = self
            .frames
            .last()
            .map_or(0, |frame| u64::from(frame.packed));
        let all: u64 = self.frames.iter().map(|f| u64::from(f.packed)).sum();
        FrameRange {
            offset: all - packed,
            packed,
        }
    }

    pub(super) fn read_group(&self, group: &LocatedGroup) -> io::Result<GroupReader> {
        GroupReader::open(&self.volumes, group.frames, Arc::clone(&group.layout))
    }

    /// Returns a reader of the stored bytes of a blob without the ELF filter, and their description.
    fn stored(&self, digest: &Digest) -> io::Result<(ElfFilterReader<EntryReader>, &StoredBlob)> {
        let (group, entry) = self
            .entries
            .get(digest)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "not in the bundle"))?;
        let group = &self.groups[*group];
        let reader = EntryReader::new(self.read_group(group)?, *entry);
        let stored = &group.layout.entries()[*entry];
        Ok((elf::decode(reader, stored), stored))
    }

    fn open_blob(&self, digest: &Digest) -> io::Result<Box<dyn Read + Send>> {
        let (reader, stored) = self.stored(digest)?;
        Ok(match &stored.opened {
            None => Box::new(Verified::new(reader, stored.blob, stored.size)),
            Some(opened) => {
                let gzip = RecompressingReader::new(reader, opened.recipe.known()?);
                Box::new(Verified::new(gzip, stored.blob, stored.size))
            }
        })
    }

    /// Returns whether the recompression document has the content of a blob. Without it, only the gzip stream
    /// that the content makes has a digest that the lock names.
    pub(super) fn covers(&self, blob: &Digest, opened: &DecompressedGzip) -> bool {
        self.header.recompression.covers(blob, opened)
    }

    /// Returns a reader of what is stored of a blob. It compares the digest in the placement document.
    fn stored_content(&self, digest: &Digest) -> io::Result<Box<dyn Read + Send>> {
        let (reader, stored) = self.stored(digest)?;
        let (content, size) = (stored.stored_digest(), stored.stored_size());
        Ok(Box::new(Verified::new(reader, content, size)))
    }

    fn content_reader(&self, digest: &Digest) -> io::Result<Box<dyn Read + Send>> {
        match self.opened(digest) {
            Some(opened) if self.covers(digest, opened) => self.stored_content(digest),
            _ => Ok(Box::new(MultiGzDecoder::new(self.open_blob(digest)?))),
        }
    }

    fn explain(&self, digest: &Digest, source: io::Error) -> BundleError {
        match source.kind() {
            io::ErrorKind::NotFound => BundleError::Missing(format!("blob {digest}").into()),
            io::ErrorKind::Unsupported => {
                BundleError::damaged(self.path(), format!("cannot read {digest}: {source}"))
            }
            _ => BundleError::io(self.path(), source),
        }
    }
}

impl Blobs for Bundle {
    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        self.open_blob(digest).map_err(|e| self.explain(digest, e))
    }

    fn open_content(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        self.content_reader(digest)
            .map_err(|e| self.explain(digest, e))
    }

    fn open_content_for_hashing(
        &self,
        digest: &Digest,
    ) -> Result<Box<dyn Read + Send>, BundleError> {
        match self.opened(digest) {
            Some(_) => self
                .stored_content(digest)
                .map_err(|e| self.explain(digest, e)),
            None => self.open_content(digest),
        }
    }

    fn open_stored_content(
        &self,
        digest: &Digest,
        opened: &DecompressedGzip,
    ) -> Result<StoredContent, BundleError> {
        match self.opened(digest) {
            Some(stored) if stored == opened => {
                let content = self.stored_content(digest);
                content.map(Some).map_err(|e| self.explain(digest, e))
            }
            _ => Ok(None),
        }
    }

    fn stream(&self, wanted: &BTreeSet<Digest>, take: &mut PartHandler<'_>) -> io::Result<()> {
        stream::stream(self, wanted, take)
    }
}

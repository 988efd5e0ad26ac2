//! A group as tar entries: the order and the names of its chunks (`FORMAT.md`, section 7).

use crate::format::oci_layout::blob_path;
use crate::format::placement::{DecompressedGzip, Group};
use crate::format::tar_entry::TAR_BLOCK;
use kubexm_types::Digest;

/// A group with the stored sizes of its blobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupLayout {
    pieces: u32,
    entries: Vec<StoredBlob>,
}

/// A blob in its stored form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBlob {
    /// Digest of the blob.
    pub blob: Digest,
    /// Size of the blob in bytes.
    pub size: u64,
    /// Set if the blob is stored as decompressed gzip.
    pub opened: Option<DecompressedGzip>,
    /// Whether the stored form is filtered by the ELF filter.
    pub filtered: bool,
}

impl StoredBlob {
    /// Returns the size of the stored form in bytes.
    pub fn stored_size(&self) -> u64 {
        self.opened.as_ref().map_or(self.size, |opened| opened.size)
    }

    /// Returns the digest of the stored form before the ELF filter.
    pub fn stored_digest(&self) -> Digest {
        self.opened
            .as_ref()
            .map_or(self.blob, |opened| opened.content)
    }
}

/// One tar entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Index of its blob in the group.
    pub entry: usize,
    /// Name of the entry.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Whether it is the last chunk of its blob.
    pub last: bool,
}

impl GroupLayout {
    /// Returns `None` if `size_of` does not know a blob.
    pub fn new(group: &Group, size_of: impl Fn(&Digest) -> Option<u64>) -> Option<Self> {
        let entries = group.entries.iter().map(|entry| {
            Some(StoredBlob {
                blob: entry.blob,
                size: size_of(&entry.blob)?,
                opened: entry.opened.clone(),
                filtered: entry.filtered,
            })
        });
        Some(Self {
            pieces: group.pieces,
            entries: entries.collect::<Option<_>>()?,
        })
    }

    /// Returns the blobs.
    pub fn entries(&self) -> &[StoredBlob] {
        &self.entries
    }

    /// Returns whether each blob has one chunk.
    pub fn whole(&self) -> bool {
        self.pieces == 1
    }

    /// Returns the chunk with this index, or `None` after the last one.
    pub fn chunk(&self, at: usize) -> Option<Chunk> {
        let (number, entry) = (at / self.entries.len(), at % self.entries.len());
        let number = u32::try_from(number).ok().filter(|n| *n < self.pieces)?;
        let stored = &self.entries[entry];
        let start = self.start(stored, number);
        Some(Chunk {
            entry,
            name: self.name(stored, number),
            size: self.start(stored, number + 1) - start,
            last: number + 1 == self.pieces,
        })
    }

    /// Returns the size of the group's tar entries in bytes, or `None` if it exceeds 64 bits.
    pub fn plain(&self) -> Option<u64> {
        let mut all = 0u64;
        for at in 0.. {
            let Some(chunk) = self.chunk(at) else { break };
            let padded = chunk.size.checked_next_multiple_of(TAR_BLOCK)?;
            all = all.checked_add(padded)?.checked_add(TAR_BLOCK)?;
        }
        Some(all)
    }

    /// Returns the offset of a chunk in its blob.
    fn start(&self, stored: &StoredBlob, number: u32) -> u64 {
        let at = u128::from(stored.stored_size()) * u128::from(number) / u128::from(self.pieces);
        // At most the size of the blob.
        at as u64
    }

    /// Returns the name of a chunk. A blob that is stored unchanged in one chunk has its name in the OCI
    /// image layout, so that other tools find it.
    fn name(&self, stored: &StoredBlob, number: u32) -> String {
        let hex = stored.blob.hex();
        match (&stored.opened, stored.filtered, self.pieces) {
            (None, false, 1) => blob_path(&stored.blob),
            (None, false, _) => format!("pieces/{hex}/{number:04}"),
            (None, true, _) => format!("filtered/{hex}/{number:04}"),
            (Some(_), false, _) => format!("opened/{hex}/{number:04}"),
            (Some(_), true, _) => format!("opened-filtered/{hex}/{number:04}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::placement::Entry;

    #[test]
    fn pieces_take_turns_and_add_up() {
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        let entry = Entry::kept;
        let group = Group {
            pieces: 4,
            entries: vec![entry(a), entry(b)],
        };
        let size = |digest: &Digest| Some(if *digest == a { 1030 } else { 3 });
        let layout = GroupLayout::new(&group, size).unwrap();
        let pieces: Vec<Chunk> = (0..).map_while(|at| layout.chunk(at)).collect();
        let of = |entry| pieces.iter().filter(move |chunk| chunk.entry == entry);
        assert_eq!(
            of(0).map(|chunk| chunk.size).collect::<Vec<_>>(),
            [257, 258, 257, 258]
        );
        assert_eq!(of(1).map(|chunk| chunk.size).sum::<u64>(), 3);
        assert!(pieces.iter().map(|chunk| chunk.entry).eq([0, 1].repeat(4)));
        assert!(
            of(0)
                .map(|chunk| chunk.last)
                .eq([false, false, false, true])
        );
        assert_eq!(pieces[2].name, format!("pieces/{}/0001", a.hex()));
        // Eight headers, each chunk padded to whole blocks; b's first chunk is empty.
        assert_eq!(layout.plain(), Some(8 * 512 + 4 * 512 + 3 * 512));
    }
}

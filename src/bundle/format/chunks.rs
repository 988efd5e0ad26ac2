//! What a group is as a tar: which piece follows which, under which name.

use crate::format::oci_layout::blob_path;
use crate::format::placement::{DecompressedGzip, Group};
use crate::write::TAR_BLOCK;
use kubexm_types::Digest;

/// A group with the lengths that its blobs have in the file.
#[derive(Debug, Clone)]
pub struct GroupLayout {
    pieces: u32,
    entries: Vec<StoredBlob>,
}

/// A blob as it lies in the file.
#[derive(Debug, Clone)]
pub struct StoredBlob {
    /// The blob.
    pub blob: Digest,
    /// Its bytes.
    pub size: u64,
    /// Set where its content lies there instead.
    pub opened: Option<DecompressedGzip>,
    /// Whether programs in it lie there as what compresses better.
    pub filtered: bool,
}

impl StoredBlob {
    /// Bytes that lie in the file.
    pub fn stored_size(&self) -> u64 {
        self.opened.as_ref().map_or(self.size, |opened| opened.size)
    }

    /// SHA-256 of the bytes that lie in the file, before any filter.
    pub fn stored_digest(&self) -> Digest {
        self.opened
            .as_ref()
            .map_or(self.blob, |opened| opened.content)
    }
}

/// One entry of the tar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Which of the group's blobs it is of.
    pub entry: usize,
    /// The entry's name in the tar.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Whether it ends its blob.
    pub last: bool,
}

impl GroupLayout {
    /// `None` where `size_of` does not know a blob.
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

    /// The blobs.
    pub fn entries(&self) -> &[StoredBlob] {
        &self.entries
    }

    /// Whether its blobs lie there in one piece each.
    pub fn whole(&self) -> bool {
        self.pieces == 1
    }

    /// The piece that lies at a place; `None` behind the last one.
    pub fn piece(&self, at: usize) -> Option<Chunk> {
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

    /// Bytes of the whole group as a tar; `None` where no file has so many.
    pub fn plain(&self) -> Option<u64> {
        let mut all = 0u64;
        for at in 0.. {
            let Some(piece) = self.piece(at) else { break };
            let padded = piece.size.checked_next_multiple_of(TAR_BLOCK)?;
            all = all.checked_add(padded)?.checked_add(TAR_BLOCK)?;
        }
        Some(all)
    }

    /// Where a piece of a blob begins.
    fn start(&self, stored: &StoredBlob, number: u32) -> u64 {
        let at = u128::from(stored.stored_size()) * u128::from(number) / u128::from(self.pieces);
        // Never more than the size.
        at as u64
    }

    /// A blob that lies there whole and as it came has its name in the image layout, so that every
    /// tool finds it.
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
        let pieces: Vec<Chunk> = (0..).map_while(|at| layout.piece(at)).collect();
        let of = |entry| pieces.iter().filter(move |piece| piece.entry == entry);
        assert_eq!(
            of(0).map(|piece| piece.size).collect::<Vec<_>>(),
            [257, 258, 257, 258]
        );
        assert_eq!(of(1).map(|piece| piece.size).sum::<u64>(), 3);
        assert!(pieces.iter().map(|piece| piece.entry).eq([0, 1].repeat(4)));
        assert!(
            of(0)
                .map(|piece| piece.last)
                .eq([false, false, false, true])
        );
        assert_eq!(pieces[2].name, format!("pieces/{}/0001", a.hex()));
        // Eight headers, each piece padded to whole blocks; b's first piece is empty.
        assert_eq!(layout.plain(), Some(8 * 512 + 4 * 512 + 3 * 512));
    }
}

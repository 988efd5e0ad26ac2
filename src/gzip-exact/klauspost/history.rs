//! The content before and in a block, as the searches of levels 1 to 6 see it, and its hashes.

use crate::symbols::{LARGEST_STORED, same};

/// Distances of matches are less than this number of bytes; some searches permit equality.
pub(super) const FARTHEST: usize = 1 << 15;
/// Number of bytes that are kept before the oldest are discarded.
const CAPACITY: usize = 5 * LARGEST_STORED;
/// Positions are reduced before they exceed 32 bits.
const LARGEST_BASE: u32 = 1 << 31;
/// Large enough that an empty slot of a table, 0, is out of reach.
const FIRST_BASE: u32 = LARGEST_STORED as u32;
/// Length of the longest match that some comparisons find, without its first four bytes.
const LIMITED: usize = 254;
/// Number of bytes at the end of a block that are not searched.
const MARGIN: usize = 11;

/// The bytes of the block, and those before it that matches may reach.
pub(super) struct History {
    bytes: Vec<u8>,
    /// Start of the block.
    start: usize,
    /// Added to the positions in the tables.
    base: u32,
}

impl History {
    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::with_capacity(CAPACITY + LARGEST_STORED),
            start: 0,
            base: FIRST_BASE,
        }
    }

    /// Appends as many bytes to the block as fit. Returns their number.
    pub(super) fn fill(&mut self, data: &[u8]) -> usize {
        let count = data.len().min(LARGEST_STORED - self.block().len());
        self.bytes.extend_from_slice(&data[..count]);
        count
    }

    /// Discards the oldest bytes if there is no room for the block as it is now. The start of
    /// the history influences some searches, so a short block must not discard more than it
    /// needs.
    pub(super) fn make_room(&mut self) {
        if self.bytes.len() > CAPACITY {
            let forgotten = self.start - FARTHEST;
            self.bytes.copy_within(forgotten.., 0);
            self.bytes.truncate(self.bytes.len() - forgotten);
            self.start = FARTHEST;
            self.base += forgotten as u32;
        }
    }

    pub(super) fn block(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Starts the next block.
    pub(super) fn advance(&mut self) {
        self.start = self.bytes.len();
    }

    /// Discards everything: all positions in the tables are out of reach from now on.
    pub(super) fn forget(&mut self) {
        self.base += (self.bytes.len() + FARTHEST) as u32;
        self.bytes.clear();
        self.start = 0;
    }

    /// Returns by how much all positions in the tables must be reduced now, if they must.
    pub(super) fn lower(&mut self) -> Option<u32> {
        let due = self.base >= LARGEST_BASE;
        due.then(|| {
            let by = self.base - FIRST_BASE;
            self.base = FIRST_BASE;
            by
        })
    }

    /// Sets the state as after a long stream.
    #[cfg(test)]
    pub(super) fn nearly_too_long(&mut self) {
        self.base = LARGEST_BASE - 100_000;
    }

    /// Returns the view for the search of the block, or `None` if the block is too short for
    /// one.
    pub(super) fn view(&self) -> Option<View<'_>> {
        (self.block().len() > MARGIN + 1).then(|| View {
            bytes: &self.bytes,
            start: self.start,
            limit: self.bytes.len() - MARGIN,
            base: self.base,
        })
    }
}

/// The history during a search.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) bytes: &'a [u8],
    /// Start of the block.
    pub(super) start: usize,
    /// No match is searched from this position on.
    pub(super) limit: usize,
    base: u32,
}

impl View<'_> {
    /// Returns a position as it is written in a table.
    #[inline]
    pub(super) fn place(self, at: usize) -> u32 {
        at as u32 + self.base
    }

    /// Returns the position of a table's entry, which may be before the known bytes.
    #[inline]
    pub(super) fn index(self, entry: u32) -> isize {
        entry as isize - self.base as isize
    }

    /// Returns the position of an entry if it is less than [`FARTHEST`] before `at`.
    #[inline]
    pub(super) fn near(self, entry: u32, at: usize) -> Option<usize> {
        let distance = self.place(at).wrapping_sub(entry) as usize;
        (distance < FARTHEST).then(|| at - distance)
    }

    #[inline]
    pub(super) fn four(self, at: usize) -> u32 {
        match self.bytes[at..].first_chunk() {
            Some(bytes) => u32::from_le_bytes(*bytes),
            None => 0,
        }
    }

    #[inline]
    pub(super) fn eight(self, at: usize) -> u64 {
        match self.bytes[at..].first_chunk() {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => 0,
        }
    }

    /// Returns how many bytes are equal at `at` and at the earlier position `from`.
    #[inline]
    pub(super) fn matching(self, at: usize, from: usize) -> usize {
        same(&self.bytes[at..], &self.bytes[from..])
    }

    /// Returns the length of a match of at least four bytes.
    #[inline]
    pub(super) fn length(self, at: usize, from: usize) -> usize {
        4 + self.matching(at + 4, from + 4)
    }

    /// Returns the length of a match of at least four and at most 258 bytes.
    #[inline]
    pub(super) fn limited(self, at: usize, from: usize) -> usize {
        let end = (at + 4 + LIMITED).min(self.bytes.len());
        4 + same(&self.bytes[at + 4..end], &self.bytes[from + 4..])
    }

    /// Extends a match backwards while the bytes before it are equal, but not before `first`.
    /// Returns the number of bytes.
    #[inline]
    pub(super) fn extend_back(self, at: usize, from: usize, first: usize) -> usize {
        let most = (at - first).min(from);
        let wanted = self.bytes[at - most..at].iter().rev();
        let found = self.bytes[from - most..from].iter().rev();
        wanted.zip(found).take_while(|(a, b)| a == b).count()
    }
}

/// Returns the hash, of this number of bits, of the lowest four bytes.
#[inline]
pub(super) fn hash4<const BITS: u32>(bytes: u64) -> usize {
    ((bytes as u32).wrapping_mul(2_654_435_761) >> (32 - BITS)) as usize
}

/// Returns the hash, of this number of bits, of the lowest five bytes.
#[inline]
pub(super) fn hash5<const BITS: u32>(bytes: u64) -> usize {
    ((bytes << 24).wrapping_mul(889_523_592_379) >> (64 - BITS)) as usize
}

/// Returns the hash, of this number of bits, of the lowest seven bytes.
#[inline]
pub(super) fn hash7<const BITS: u32>(bytes: u64) -> usize {
    ((bytes << 8).wrapping_mul(58_295_818_150_454_627) >> (64 - BITS)) as usize
}

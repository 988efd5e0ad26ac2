//! What has been written, as the searches of the levels 1 to 6 see it, and their hashes.

use crate::symbols::{LARGEST_STORED, same};

/// Matches reach back less than this, or in some cases just as far.
pub(super) const FARTHEST: usize = 1 << 15;
/// What is kept before the oldest is forgotten.
const CAPACITY: usize = 5 * LARGEST_STORED;
/// Places are moved down before they outgrow their 32 bits.
const LARGEST_BASE: u32 = 1 << 31;
/// So far on that an empty slot of a table, 0, is out of reach.
const FIRST_BASE: u32 = LARGEST_STORED as u32;
/// The longest match that some comparisons look for, but for its first four bytes.
const LIMITED: usize = 254;
/// The end of a block is not searched.
const MARGIN: usize = 11;

/// The bytes of the block, and those before it that matches may reach.
pub(super) struct History {
    bytes: Vec<u8>,
    /// Where the block begins.
    start: usize,
    /// Added to places in tables.
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

    /// Takes bytes into the block, as many as it may have; gives their number.
    pub(super) fn fill(&mut self, data: &[u8]) -> usize {
        let count = data.len().min(LARGEST_STORED - self.block().len());
        self.bytes.extend_from_slice(&data[..count]);
        count
    }

    /// Forgets the oldest, where the block as it is now has no room beside it. A search may go by where
    /// that begins, so a short block must not make more room than it wants.
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

    /// Begins the next block.
    pub(super) fn advance(&mut self) {
        self.start = self.bytes.len();
    }

    /// Forgets everything: places in tables are out of reach from now on.
    pub(super) fn forget(&mut self) {
        self.base += (self.bytes.len() + FARTHEST) as u32;
        self.bytes.clear();
        self.start = 0;
    }

    /// By how much all places in tables must be lowered now, if they must.
    pub(super) fn lower(&mut self) -> Option<u32> {
        let due = self.base >= LARGEST_BASE;
        due.then(|| {
            let by = self.base - FIRST_BASE;
            self.base = FIRST_BASE;
            by
        })
    }

    /// As if much had been written before.
    #[cfg(test)]
    pub(super) fn nearly_too_long(&mut self) {
        self.base = LARGEST_BASE - 100_000;
    }

    /// What the search of the block needs; nothing where the block is too short for one.
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
    /// Where the block begins.
    pub(super) start: usize,
    /// From here on nothing is looked for.
    pub(super) limit: usize,
    base: u32,
}

impl View<'_> {
    /// How a place is written in a table.
    #[inline]
    pub(super) fn place(self, at: usize) -> u32 {
        at as u32 + self.base
    }

    /// The place of a table's entry; may lie before everything that is known.
    #[inline]
    pub(super) fn index(self, entry: u32) -> isize {
        entry as isize - self.base as isize
    }

    /// The place of an entry, if it is less than [`FARTHEST`] before `at`.
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

    /// How many bytes are the same at `at` and before it at `from`.
    #[inline]
    pub(super) fn matching(self, at: usize, from: usize) -> usize {
        same(&self.bytes[at..], &self.bytes[from..])
    }

    /// The length of a match of four bytes and more, to the end.
    #[inline]
    pub(super) fn length(self, at: usize, from: usize) -> usize {
        4 + self.matching(at + 4, from + 4)
    }

    /// The length of a match of four bytes and more, 258 at most.
    #[inline]
    pub(super) fn limited(self, at: usize, from: usize) -> usize {
        let end = (at + 4 + LIMITED).min(self.bytes.len());
        4 + same(&self.bytes[at + 4..end], &self.bytes[from + 4..])
    }

    /// Makes a match begin earlier while the bytes before it match too, but not before `first`;
    /// gives by how much.
    #[inline]
    pub(super) fn extend_back(self, at: usize, from: usize, first: usize) -> usize {
        let most = (at - first).min(from);
        let wanted = self.bytes[at - most..at].iter().rev();
        let found = self.bytes[from - most..from].iter().rev();
        wanted.zip(found).take_while(|(a, b)| a == b).count()
    }
}

/// The hash of the lowest four bytes, of so many bits.
#[inline]
pub(super) fn hash4<const BITS: u32>(bytes: u64) -> usize {
    ((bytes as u32).wrapping_mul(2_654_435_761) >> (32 - BITS)) as usize
}

/// The hash of the lowest five bytes, of so many bits.
#[inline]
pub(super) fn hash5<const BITS: u32>(bytes: u64) -> usize {
    ((bytes << 24).wrapping_mul(889_523_592_379) >> (64 - BITS)) as usize
}

/// The hash of the lowest seven bytes, of so many bits.
#[inline]
pub(super) fn hash7<const BITS: u32>(bytes: u64) -> usize {
    ((bytes << 8).wrapping_mul(58_295_818_150_454_627) >> (64 - BITS)) as usize
}

//! zlib's deflate at its default memory level, and the deflate of GNU gzip, from which zlib was
//! derived. The search is the same; the division into blocks differs.

mod blocks;
mod search;
mod trees;

pub(super) use search::ZlibEncoder;

/// The program family of a zlib stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// zlib with a window of 32 KiB and memory level 8, both defaults. Python, Java, nginx and
    /// libarchive use it.
    Zlib,
    /// GNU gzip, which `tar -z` runs.
    Gnu,
}

/// A compression level of zlib and GNU gzip: 1 to 9.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZlibLevel(u8);

impl ZlibLevel {
    /// All levels, the most frequent ones first.
    pub(super) const ALL: [Self; 9] = [
        Self(6),
        Self(9),
        Self(1),
        Self(5),
        Self(7),
        Self(8),
        Self(4),
        Self(3),
        Self(2),
    ];

    /// Returns the level with this number, or `None` if it is not 1 to 9.
    pub fn new(level: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.0 == level)
    }

    /// Returns the number of the level: 1 to 9.
    pub fn number(self) -> u8 {
        self.0
    }
}

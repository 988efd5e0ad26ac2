//! zlib's deflate at its usual memory level, and GNU gzip's, from which it once came: the same
//! search, but other blocks.

mod blocks;
mod search;
mod trees;

pub(super) use search::ZlibEncoder;

/// Which of the two programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// zlib (Python, Java, bazel, nginx and nearly everybody else), window 32 KiB, memory level 8.
    Zlib,
    /// GNU gzip, which `tar -z` calls.
    Gnu,
}

/// A level of zlib and GNU gzip: 1 to 9.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZlibLevel(u8);

impl ZlibLevel {
    /// Every level, the likely ones first.
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

    /// `None` where there is no such level.
    pub fn new(level: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.0 == level)
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }
}

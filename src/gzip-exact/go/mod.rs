//! Go's `compress/flate` from Go 1.7 to Go 1.26.

mod block;
mod chain;
mod fast;
mod plain;

use std::io::{self, Write};

use chain::ChainEncoder;
use fast::FastEncoder;
use plain::PlainEncoder;

/// A compression level of Go's `compress/flate` and of klauspost/compress: 0 to 9, or -2
/// (`HuffmanOnly`: literals without matches).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoLevel(i8);

impl GoLevel {
    /// The level of Go's `gzip.NewWriter`: 6. (`flate.DefaultCompression`, -1, stands for it.)
    pub const DEFAULT: Self = Self(6);
    /// All levels, the most frequent ones first.
    pub(super) const ALL: [Self; 11] = [
        Self(6),
        Self(1),
        Self(9),
        Self(5),
        Self(7),
        Self(8),
        Self(4),
        Self(3),
        Self(2),
        Self(0),
        Self(-2),
    ];

    /// Returns the level with this number, or `None` if it is not -2 or 0 to 9.
    pub fn new(level: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.0 == level)
    }

    /// Returns the number of the level: -2 or 0 to 9.
    pub fn number(self) -> i8 {
        self.0
    }
}

/// The encoder of a level.
pub(super) enum GoEncoder<W: Write> {
    Chain(Box<ChainEncoder<W>>),
    Fast(Box<FastEncoder<W>>),
    Plain(Box<PlainEncoder<W>>),
}

impl<W: Write> GoEncoder<W> {
    pub(super) fn new(out: W, level: GoLevel) -> Self {
        match level.0 {
            0 => Self::Plain(Box::new(PlainEncoder::new(out, false))),
            -2 => Self::Plain(Box::new(PlainEncoder::new(out, true))),
            1 => Self::Fast(Box::new(FastEncoder::new(out))),
            level => Self::Chain(Box::new(ChainEncoder::new(out, level))),
        }
    }

    pub(super) fn write(&mut self, data: &[u8]) -> io::Result<()> {
        match self {
            Self::Chain(encoder) => encoder.write(data),
            Self::Fast(encoder) => encoder.write(data),
            Self::Plain(encoder) => encoder.write(data),
        }
    }

    /// Returns the writer that receives the output.
    pub(super) fn out(&mut self) -> &mut W {
        match self {
            Self::Chain(encoder) => encoder.out(),
            Self::Fast(encoder) => encoder.out(),
            Self::Plain(encoder) => encoder.out(),
        }
    }

    pub(super) fn finish(self) -> io::Result<W> {
        match self {
            Self::Chain(encoder) => encoder.finish(),
            Self::Fast(encoder) => encoder.finish(),
            Self::Plain(encoder) => encoder.finish(),
        }
    }
}

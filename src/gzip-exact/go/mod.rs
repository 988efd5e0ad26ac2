//! Go's `compress/flate`, as it was from Go 1.7 up to Go 1.26.

mod block;
mod chain;
mod fast;
mod plain;

use std::io::{self, Write};

use chain::ChainEncoder;
use fast::FastEncoder;
use plain::PlainEncoder;

/// A level: 0 to 9, or -2 for literals only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoLevel(i8);

impl GoLevel {
    /// What `gzip.NewWriter` uses.
    pub const DEFAULT: Self = Self(6);
    /// Every level, the likely ones first.
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

    /// `None` where there is no such level.
    pub fn new(level: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.0 == level)
    }

    /// Its number.
    pub fn number(self) -> i8 {
        self.0
    }
}

/// Any of the levels at work.
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

    /// Where bytes go.
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

//! klauspost/pgzip: blocks of content, each compressed by itself with the end of the one before as its
//! dictionary, so that many can be at once.

use std::io::{self, Write};

use super::{Era, FlateEncoder};
use crate::GoLevel;

/// What of the block before is a block's dictionary.
pub(super) const TAIL: usize = 1 << 14;

/// Bytes of content in each of pgzip's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSize(u32);

impl BlockSize {
    /// What pgzip uses where nobody says otherwise: 1 MiB.
    pub const DEFAULT: Self = Self(1 << 20);
    /// Larger ones would cost too much memory.
    const LARGEST: u32 = 1 << 24;

    /// `None` where pgzip refuses it (16 KiB and less), or it is larger than 16 MiB.
    pub fn new(bytes: u32) -> Option<Self> {
        (bytes > TAIL as u32 && bytes <= Self::LARGEST).then_some(Self(bytes))
    }

    /// Its bytes.
    pub fn bytes(self) -> u32 {
        self.0
    }
}

/// Compresses what is written to it.
pub(crate) struct PgzipEncoder<W> {
    flate: FlateEncoder<W>,
    size: usize,
    /// Bytes of the block that have come.
    filled: usize,
    /// The newest bytes of the block, at least [`TAIL`] of them where there are so many.
    tail: Vec<u8>,
}

impl<W: Write> PgzipEncoder<W> {
    pub(crate) fn new(out: W, era: Era, level: GoLevel, size: BlockSize) -> Self {
        Self {
            flate: FlateEncoder::new(out, era, level),
            size: size.0 as usize,
            filled: 0,
            tail: Vec::with_capacity(2 * TAIL),
        }
    }

    /// Where bytes go.
    pub(crate) fn out(&mut self) -> &mut W {
        self.flate.out()
    }

    pub(crate) fn write(&mut self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            let count = data.len().min(self.size - self.filled);
            self.flate.write(&data[..count])?;
            self.keep(&data[..count]);
            self.filled += count;
            if self.filled == self.size {
                self.flate.sync()?;
                self.flate.restart(&self.tail[self.tail.len() - TAIL..]);
                self.filled = 0;
                self.tail.clear();
            }
            data = &data[count..];
        }
        Ok(())
    }

    /// Only what is near the end of a block will be its tail.
    fn keep(&mut self, data: &[u8]) {
        let end = self.filled + data.len();
        let wanted = end.saturating_sub(self.size - TAIL).min(data.len());
        self.tail.extend_from_slice(&data[data.len() - wanted..]);
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.flate.sync()?;
        self.flate.finish()
    }
}

//! klauspost/pgzip: blocks of content. Each is compressed independently, with the end of the block
//! before as its dictionary, so that several can be compressed at the same time.

use std::io::{self, Write};

use super::{Era, FlateEncoder};
use crate::GoLevel;

/// Number of bytes at the end of a block that are the dictionary of the next one.
pub(super) const TAIL: usize = 1 << 14;

/// Size of pgzip's blocks in bytes of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSize(u32);

impl BlockSize {
    /// pgzip's default: 1 MiB.
    pub const DEFAULT: Self = Self(1 << 20);
    /// Maximum, in bytes; larger blocks need too much memory.
    const LARGEST: u32 = 1 << 24;

    /// Returns the block size, or `None` if it is not more than 16 KiB, which pgzip refuses, or
    /// more than 16 MiB, which this crate refuses.
    pub fn new(bytes: u32) -> Option<Self> {
        (bytes > TAIL as u32 && bytes <= Self::LARGEST).then_some(Self(bytes))
    }

    /// Returns the size in bytes.
    pub fn bytes(self) -> u32 {
        self.0
    }
}

/// Compresses the content that is written to it.
pub(crate) struct PgzipEncoder<W> {
    flate: FlateEncoder<W>,
    size: usize,
    /// Number of bytes of the block so far.
    filled: usize,
    /// The newest bytes of the block; at least [`TAIL`], if the block has as many.
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

    /// Returns the writer that receives the output.
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

    /// Only bytes near the end of a block can be in its tail.
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

//! Level 0 (stored blocks) and level -2 (literals without matches).

use std::io::{self, Write};

use super::block::BlockWriter;
use crate::symbols::LARGEST_STORED;

/// Writes blocks of 64 KiB without a search.
pub(crate) struct PlainEncoder<W> {
    blocks: BlockWriter<W>,
    block: Vec<u8>,
    coded: bool,
}

impl<W: Write> PlainEncoder<W> {
    /// `coded`: literals have codes; otherwise blocks are stored.
    pub(super) fn new(out: W, coded: bool) -> Self {
        Self {
            blocks: BlockWriter::new(out),
            block: Vec::with_capacity(LARGEST_STORED),
            coded,
        }
    }

    /// Returns the writer that receives the output.
    pub(super) fn out(&mut self) -> &mut W {
        self.blocks.out()
    }

    pub(super) fn write(&mut self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            if self.block.len() == LARGEST_STORED {
                self.flush()?;
            }
            let count = data.len().min(LARGEST_STORED - self.block.len());
            self.block.extend_from_slice(&data[..count]);
            data = &data[count..];
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        self.blocks.finish()
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        if self.coded {
            self.blocks.literals_only(&self.block)?;
        } else {
            self.blocks.stored(&self.block)?;
        }
        self.block.clear();
        Ok(())
    }
}

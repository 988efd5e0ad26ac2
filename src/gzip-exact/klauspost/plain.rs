//! Level 0 (stored blocks) and level -2 (literals without matches).

use std::io::{self, Write};

use super::blocks::Blocks;
use crate::symbols::LARGEST_STORED;

const LARGEST_CODED: usize = 1 << 15;

/// Writes blocks without a search.
pub(super) struct Plain {
    block: Vec<u8>,
    coded: bool,
}

impl Plain {
    /// `coded`: literals have codes; otherwise blocks are stored.
    pub(super) fn new(coded: bool) -> Self {
        Self {
            block: Vec::new(),
            coded,
        }
    }

    pub(super) fn write<W: Write>(
        &mut self,
        blocks: &mut Blocks<W>,
        mut data: &[u8],
    ) -> io::Result<()> {
        let largest = if self.coded {
            LARGEST_CODED
        } else {
            LARGEST_STORED
        };
        while !data.is_empty() {
            if self.block.len() == largest {
                self.block(blocks, false)?;
            }
            let count = data.len().min(largest - self.block.len());
            self.block.extend_from_slice(&data[..count]);
            data = &data[count..];
        }
        Ok(())
    }

    /// Writes the block.
    pub(super) fn flush<W: Write>(&mut self, blocks: &mut Blocks<W>) -> io::Result<()> {
        if self.block.is_empty() {
            Ok(())
        } else {
            self.block(blocks, true)
        }
    }

    fn block<W: Write>(&mut self, blocks: &mut Blocks<W>, last: bool) -> io::Result<()> {
        if self.coded {
            blocks.literals_only(&self.block, last)?
        } else {
            blocks.stored(&self.block)?
        }
        self.block.clear();
        Ok(())
    }
}

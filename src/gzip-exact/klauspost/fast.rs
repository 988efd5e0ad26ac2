//! Levels 1 to 6: blocks of 64 KiB, each searched as a whole.

use std::io::{self, Write};

use super::blocks::Blocks;
use super::double::Double;
use super::double_paired::{Fifth, Sixth};
use super::history::History;
use super::paired::Paired;
use super::search::Search;
use super::single::{Large, Small};
use super::tokens::Tokens;
use crate::symbols::LARGEST_STORED;

/// Content of at most this many bytes at the end of the stream is not searched.
const SHORTEST_LAST: usize = 128;
/// Content of at most this many bytes is stored.
const SHORTEST_CODED: usize = 32;

/// The encoder of levels 1 to 6.
pub(super) struct Fast {
    history: History,
    search: Box<dyn Search>,
    tokens: Tokens,
}

impl Fast {
    /// `mismeasured`: level 4 as it is since 1.18.0.
    pub(super) fn new(level: i8, mismeasured: bool) -> Self {
        let search: Box<dyn Search> = match level {
            ..=1 => Box::new(Small::new()),
            2 => Box::new(Large::new()),
            3 => Box::new(Paired::new()),
            4 => Box::new(Double::new(mismeasured)),
            5 => Box::new(Fifth::new()),
            6.. => Box::new(Sixth::new()),
        };
        Self {
            history: History::new(),
            search,
            tokens: Tokens::new(),
        }
    }

    pub(super) fn write<W: Write>(
        &mut self,
        blocks: &mut Blocks<W>,
        mut data: &[u8],
    ) -> io::Result<()> {
        while !data.is_empty() {
            if self.history.block().len() == LARGEST_STORED {
                self.block(blocks, false)?;
            }
            data = &data[self.history.fill(data)..];
        }
        Ok(())
    }

    /// Sets the state as after a long stream.
    #[cfg(test)]
    pub(super) fn nearly_too_long(&mut self) {
        self.history.nearly_too_long();
    }

    /// Writes the block.
    pub(super) fn flush<W: Write>(&mut self, blocks: &mut Blocks<W>) -> io::Result<()> {
        let block = self.history.block();
        match block.len() {
            0 => return Ok(()),
            1..=SHORTEST_CODED => blocks.stored(block)?,
            length if length < SHORTEST_LAST => blocks.literals_only(block, true)?,
            _ => return self.block(blocks, true),
        }
        self.history.forget();
        Ok(())
    }

    /// Starts again, with a dictionary: bytes that count as written before.
    pub(super) fn restart(&mut self, before: &[u8]) {
        self.history.forget();
        self.history.fill(before);
        self.search();
        self.history.advance();
    }

    fn search(&mut self) {
        self.history.make_room();
        if let Some(by) = self.history.lower() {
            self.search.lower(by);
        }
        self.tokens.clear();
        let Some(view) = self.history.view() else {
            return;
        };
        let coded = self.search.search(view, &mut self.tokens);
        // A block without any match is stored.
        if !self.tokens.list.is_empty() {
            self.tokens.literals(&view.bytes[coded..]);
        }
    }

    fn block<W: Write>(&mut self, blocks: &mut Blocks<W>, last: bool) -> io::Result<()> {
        self.search();
        let block = self.history.block();
        let count = self.tokens.list.len();
        if count == 0 {
            blocks.stored(block)?;
        } else if count > block.len() - (block.len() >> 4) {
            blocks.literals_only(block, last)?;
        } else {
            blocks.tokens(&self.tokens, Some(block), last)?;
        }
        self.history.advance();
        Ok(())
    }
}

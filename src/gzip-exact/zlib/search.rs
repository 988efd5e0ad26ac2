//! The search for matches. zlib and GNU gzip differ only at the end of the content.

use std::io::{self, Write};

use super::blocks::Blocks;
use super::{Kind, ZlibLevel};
use crate::symbols::same;

const WINDOW: usize = 1 << 15;
const SHORTEST: usize = 3;
const LONGEST: usize = 258;
/// Number of bytes that must be known after a position before it is searched.
const LOOKAHEAD: usize = LONGEST + SHORTEST + 1;
/// Maximum distance of a match in bytes.
const FARTHEST: usize = WINDOW - LOOKAHEAD;
/// A match of three bytes with a greater distance is larger than its literals.
const TOO_FAR: usize = 4096;
const HASH_BITS: u32 = 15;
const HASH_SHIFT: u32 = 5;

/// The parameters of a level.
#[derive(Debug, Clone, Copy)]
struct Effort {
    /// After a match of this length, only a quarter of the chain is searched.
    good: usize,
    /// Length of a match from which on it is not replaced by a later one. Without lazy matching:
    /// length up to which all positions of a match are inserted into the table.
    lazy: usize,
    /// Length of a match that ends the search.
    nice: usize,
    /// Maximum number of positions that are compared.
    tries: usize,
}

fn effort(level: u8) -> Effort {
    let (good, lazy, nice, tries) = match level {
        ..=1 => (4, 4, 8, 4),
        2 => (4, 5, 16, 8),
        3 => (4, 6, 32, 32),
        4 => (4, 4, 16, 16),
        5 => (8, 16, 32, 32),
        6 => (8, 16, 128, 128),
        7 => (8, 32, 128, 256),
        8 => (32, 128, 258, 1024),
        9.. => (32, 258, 258, 4096),
    };
    Effort {
        good,
        lazy,
        nice,
        tries,
    }
}

/// Compresses the content that is written to it.
pub(crate) struct ZlibEncoder<W> {
    kind: Kind,
    effort: Effort,
    lazy: bool,
    blocks: Blocks<W>,
    /// Two windows. GNU gzip also reads the old bytes after the end of the content.
    window: Vec<u8>,
    position: usize,
    ahead: usize,
    /// Start of the block; negative if it is before the window.
    block_start: isize,
    /// The newest position of each hash, and for each position the one before it with the same
    /// hash. 0 means "no position".
    heads: Vec<u16>,
    previous: Vec<u16>,
    hash: usize,
    /// Whether the first bytes are in the hash.
    begun: bool,
    /// Whether the byte before `position` is not in a token yet.
    pending: bool,
    length: usize,
    start: usize,
}

impl<W: Write> ZlibEncoder<W> {
    pub(crate) fn new(out: W, kind: Kind, level: ZlibLevel) -> Self {
        Self {
            kind,
            effort: effort(level.number()),
            lazy: level.number() > 3,
            blocks: Blocks::new(out, kind, level.number()),
            window: vec![0; 2 * WINDOW + LONGEST],
            position: 0,
            ahead: 0,
            block_start: 0,
            heads: vec![0; 1 << HASH_BITS],
            previous: vec![0; WINDOW],
            hash: 0,
            begun: false,
            pending: false,
            length: SHORTEST - 1,
            start: 0,
        }
    }

    /// Returns the writer that receives the output.
    pub(crate) fn out(&mut self) -> &mut W {
        self.blocks.out()
    }

    pub(crate) fn write(&mut self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            data = &data[self.fill(data)..];
            if self.position + self.ahead == 2 * WINDOW {
                self.compress(false)?;
            }
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        // The bytes since the window was last full are not searched yet.
        self.compress(false)?;
        self.slide();
        let end = self.position + self.ahead;
        self.window[end..end + SHORTEST - 1].fill(0);
        self.compress(true)?;
        if self.pending {
            self.blocks
                .literal(self.window[self.position - 1], self.block_length());
        }
        self.end_block(true)?;
        self.blocks.finish()
    }

    /// Copies as many bytes into the window as fit. Moves the window first, if it is full.
    fn fill(&mut self, data: &[u8]) -> usize {
        self.slide();
        let end = self.position + self.ahead;
        let count = data.len().min(2 * WINDOW - end);
        self.window[end..end + count].copy_from_slice(&data[..count]);
        self.ahead += count;
        count
    }

    fn slide(&mut self) {
        if self.position < WINDOW + FARTHEST {
            return;
        }
        self.window.copy_within(WINDOW..2 * WINDOW, 0);
        self.position -= WINDOW;
        self.start = self.start.wrapping_sub(WINDOW);
        self.block_start -= WINDOW as isize;
        for position in self.heads.iter_mut().chain(&mut self.previous) {
            *position = position.saturating_sub(WINDOW as u16);
        }
    }

    fn block_length(&self) -> usize {
        (self.position as isize - self.block_start) as usize
    }

    fn end_block(&mut self, last: bool) -> io::Result<()> {
        let input = usize::try_from(self.block_start)
            .ok()
            .map(|start| &self.window[start..self.position]);
        let length = (self.position as isize - self.block_start) as usize;
        self.blocks.end(input, length, last)?;
        self.block_start = self.position as isize;
        Ok(())
    }

    fn compress(&mut self, to_the_end: bool) -> io::Result<()> {
        while self.ahead >= LOOKAHEAD || (to_the_end && self.ahead > 0) {
            if !self.begun {
                self.begun = true;
                self.roll(0);
                self.roll(1);
            }
            if self.lazy {
                self.lazy()?
            } else {
                self.greedy()?
            }
        }
        Ok(())
    }

    /// Adds a byte to the hash, which covers the last three bytes.
    #[inline]
    fn roll(&mut self, at: usize) {
        let mask = (1 << HASH_BITS) - 1;
        self.hash = ((self.hash << HASH_SHIFT) ^ usize::from(self.window[at])) & mask;
    }

    /// Inserts a position into the tables. Returns the previous position with the same hash.
    #[inline]
    fn insert(&mut self, position: usize) -> usize {
        self.roll(position + SHORTEST - 1);
        let before = self.heads[self.hash];
        self.previous[position % WINDOW] = before;
        self.heads[self.hash] = position as u16;
        before.into()
    }

    /// Inserts `count` positions after `position` and moves to the last one.
    fn enter(&mut self, count: usize) {
        // zlib stops if fewer than three bytes are left. GNU gzip continues into the old
        // bytes after the end; the positions that it inserts there are never found.
        let limit = (self.position + self.ahead).saturating_sub(SHORTEST);
        for _ in 0..count {
            self.position += 1;
            if self.kind == Kind::Gnu || self.position <= limit {
                self.insert(self.position);
            }
        }
    }

    fn candidate(&mut self) -> Option<usize> {
        if self.kind == Kind::Zlib && self.ahead < SHORTEST {
            return None;
        }
        let candidate = self.insert(self.position);
        (candidate != 0 && self.position - candidate <= FARTHEST).then_some(candidate)
    }

    /// Uses a match as soon as there is one.
    fn greedy(&mut self) -> io::Result<()> {
        let found = match self.candidate() {
            Some(candidate) => self.search(candidate, SHORTEST - 1),
            None => SHORTEST - 1,
        };
        let bytes = self.block_length();
        let full = if found >= SHORTEST {
            let full = self
                .blocks
                .matched(found, self.position - self.start, bytes);
            let short = found <= self.effort.lazy;
            if short && (self.kind == Kind::Gnu || self.ahead - found >= SHORTEST) {
                let ahead = self.ahead - found;
                self.enter(found - 1);
                self.position += 1;
                self.ahead = ahead;
            } else {
                self.position += found;
                self.ahead -= found;
                self.hash = self.window[self.position].into();
                self.roll(self.position + 1);
            }
            full
        } else {
            let full = self.blocks.literal(self.window[self.position], bytes);
            self.position += 1;
            self.ahead -= 1;
            full
        };
        if full {
            self.end_block(false)?;
        }
        Ok(())
    }

    /// Uses the match at the previous byte, unless the match at this one is longer.
    fn lazy(&mut self) -> io::Result<()> {
        let candidate = self.candidate();
        let (before, start) = (self.length, self.start);
        self.length = SHORTEST - 1;
        if let Some(candidate) = candidate
            && before < self.effort.lazy
        {
            self.length = self.search(candidate, before);
            if self.length == SHORTEST && self.position.wrapping_sub(self.start) > TOO_FAR {
                self.length = SHORTEST - 1;
            }
        }
        if before >= SHORTEST && self.length <= before {
            let distance = self.position - 1 - start;
            let bytes = self.block_length();
            let full = self.blocks.matched(before, distance, bytes);
            let ahead = self.ahead - (before - 1);
            self.enter(before - 2);
            self.position += 1;
            self.ahead = ahead;
            self.pending = false;
            self.length = SHORTEST - 1;
            if full {
                self.end_block(false)?;
            }
            return Ok(());
        }
        if self.pending {
            let bytes = self.block_length();
            if self.blocks.literal(self.window[self.position - 1], bytes) {
                self.end_block(false)?;
            }
        }
        self.pending = true;
        self.position += 1;
        self.ahead -= 1;
        Ok(())
    }

    /// Searches the chain for a match that is longer than `before` and sets `start` to it.
    /// Returns the length of the longest match, or `before` if there is none.
    fn search(&mut self, mut candidate: usize, before: usize) -> usize {
        let position = self.position;
        let oldest = position.saturating_sub(FARTHEST);
        let window = &self.window[..];
        let wanted = &window[position..position + LONGEST];
        let mut tries = self.effort.tries;
        if before >= self.effort.good {
            tries >>= 2;
        }
        let nice = match self.kind {
            Kind::Zlib => self.effort.nice.min(self.ahead),
            Kind::Gnu => self.effort.nice,
        };
        let mut best = before;
        loop {
            let here = &window[candidate..candidate + LONGEST];
            if here[best] == wanted[best]
                && here[best - 1] == wanted[best - 1]
                && here[..2] == wanted[..2]
            {
                let length = same(wanted, here);
                if length > best {
                    self.start = candidate;
                    best = length;
                    if length >= nice {
                        break;
                    }
                }
            }
            candidate = self.previous[candidate % WINDOW].into();
            tries -= 1;
            if candidate <= oldest || tries == 0 {
                break;
            }
        }
        best.min(self.ahead)
    }
}

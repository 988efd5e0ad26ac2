//! Levels 2 to 9: hash chains over a window of 32 KiB, with lazy matching from level 4 on.
//!
//! The matches that are found decide the output bytes. Hash, table sizes, limits and the behaviour
//! at the edge of the window are therefore those of Go's `compress/flate` up to Go 1.26.

use std::io::{self, Write};

use super::block::BlockWriter;
use crate::symbols::{Token, same};

const WINDOW: usize = 1 << 15;
const SHORTEST: usize = 4;
const LONGEST: usize = 258;
/// Number of bytes that must be known after a position before it is searched.
const LOOKAHEAD: usize = SHORTEST + LONGEST;
const HASH_BITS: u32 = 17;
/// Maximum number of tokens in a block.
const BLOCK_TOKENS: usize = 1 << 14;
/// Positions are reduced before they exceed 32 bits.
const LARGEST_BASE: usize = 1 << 30;

/// The parameters of a level.
#[derive(Debug, Clone, Copy)]
struct Effort {
    /// Length of a match, in bytes, from which on the next byte is not searched for a better
    /// one.
    lazy: usize,
    /// Length of a match, in bytes, that ends the search.
    nice: usize,
    /// Maximum number of positions that are compared.
    tries: usize,
    /// Without lazy matching: length of the longest match whose positions are all inserted into
    /// the table.
    greedy: Option<usize>,
}

/// The first row is level 2, the last one level 9.
fn effort(level: i8) -> Effort {
    let (lazy, nice, tries, greedy) = match level {
        ..=2 => (0, 16, 8, Some(5)),
        3 => (0, 32, 32, Some(6)),
        4 => (4, 16, 16, None),
        5 => (16, 32, 32, None),
        6 => (16, 128, 128, None),
        7 => (32, 128, 256, None),
        8 => (128, 258, 1024, None),
        9.. => (258, 258, 4096, None),
    };
    Effort {
        lazy,
        nice,
        tries,
        greedy,
    }
}

/// A match: length and distance in bytes.
#[derive(Debug, Clone, Copy)]
struct Match {
    length: usize,
    distance: usize,
}

const NO_MATCH: Match = Match {
    length: SHORTEST - 1,
    distance: 0,
};

/// Compresses the content that is written to it.
pub(crate) struct ChainEncoder<W> {
    effort: Effort,
    blocks: BlockWriter<W>,
    tokens: Vec<Token>,
    /// Two windows: the half before `position` that matches may reach, and the half after it.
    window: Vec<u8>,
    end: usize,
    position: usize,
    /// Position of the first byte of the block's tokens; `None` if the window does not contain
    /// it any more.
    block_start: Option<usize>,
    /// Whether the byte before `position` is not in a token yet.
    pending: bool,
    found: Match,
    /// Positions before this one have all bytes of a hash.
    hashable: usize,
    /// The newest position of each hash, and for each position the one before it with the same
    /// hash; plus `base`.
    heads: Vec<u32>,
    previous: Vec<u32>,
    /// First position of the chain of the last hash.
    chain: usize,
    /// Added to the positions in the tables, so that 0 means "no position".
    base: usize,
}

fn hash(bytes: &[u8]) -> usize {
    let word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    (word.wrapping_mul(0x1e35_a7bd) >> (32 - HASH_BITS)) as usize
}

impl<W: Write> ChainEncoder<W> {
    /// `level` is 2 to 9.
    pub(super) fn new(out: W, level: i8) -> Self {
        Self {
            effort: effort(level),
            blocks: BlockWriter::new(out),
            tokens: Vec::with_capacity(BLOCK_TOKENS),
            window: vec![0; 2 * WINDOW],
            end: 0,
            position: 0,
            block_start: Some(0),
            pending: false,
            found: NO_MATCH,
            hashable: 0,
            heads: vec![0; 1 << HASH_BITS],
            previous: vec![0; WINDOW],
            chain: 0,
            base: 1,
        }
    }

    /// Returns the writer that receives the output.
    pub(super) fn out(&mut self) -> &mut W {
        self.blocks.out()
    }

    pub(super) fn write(&mut self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            self.compress(false)?;
            data = &data[self.fill(data)..];
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<W> {
        self.compress(true)?;
        self.blocks.finish()
    }

    /// Copies as many bytes into the window as fit. Moves the window first, if all of it is
    /// compressed.
    fn fill(&mut self, data: &[u8]) -> usize {
        if self.position >= 2 * WINDOW - LOOKAHEAD {
            self.window.copy_within(WINDOW.., 0);
            self.position -= WINDOW;
            self.end -= WINDOW;
            self.block_start = self.block_start.and_then(|start| start.checked_sub(WINDOW));
            self.base += WINDOW;
            if self.base > LARGEST_BASE {
                self.rebase();
            }
        }
        let count = data.len().min(self.window.len() - self.end);
        self.window[self.end..self.end + count].copy_from_slice(&data[..count]);
        self.end += count;
        count
    }

    fn rebase(&mut self) {
        let down = (self.base - 1) as u32;
        for position in self.heads.iter_mut().chain(&mut self.previous) {
            *position = position.saturating_sub(down);
        }
        self.chain = self.chain.saturating_sub(down as usize);
        self.base = 1;
    }

    /// Compresses while enough bytes are known, or up to the end of the content.
    fn compress(&mut self, to_the_end: bool) -> io::Result<()> {
        if !to_the_end && self.end - self.position < LOOKAHEAD {
            return Ok(());
        }
        self.hashable = self.end.saturating_sub(SHORTEST - 1);
        loop {
            let ahead = self.end - self.position;
            if ahead < LOOKAHEAD && !to_the_end {
                return Ok(());
            }
            if ahead == 0 {
                return self.flush();
            }
            if self.position < self.hashable {
                self.chain = self.insert(self.position);
            }
            match self.effort.greedy {
                Some(longest) => self.greedy(ahead, longest)?,
                None => self.lazy(ahead)?,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.pending {
            self.tokens
                .push(Token::literal(self.window[self.position - 1]));
            self.pending = false;
        }
        if self.tokens.is_empty() {
            return Ok(());
        }
        self.block(self.position)
    }

    /// Writes the tokens of the block, which ends at `end`.
    fn block(&mut self, end: usize) -> io::Result<()> {
        let input = match self.block_start {
            Some(start) if start <= end => Some(&self.window[start..end]),
            _ => None,
        };
        self.blocks.smallest(&self.tokens, input)?;
        self.block_start = Some(end);
        self.tokens.clear();
        Ok(())
    }

    fn push(&mut self, token: Token, end: usize) -> io::Result<()> {
        self.tokens.push(token);
        if self.tokens.len() == BLOCK_TOKENS {
            return self.block(end);
        }
        Ok(())
    }

    /// Inserts a position into the tables. Returns the previous position with the same hash.
    #[inline]
    fn insert(&mut self, position: usize) -> usize {
        let head = &mut self.heads[hash(&self.window[position..position + SHORTEST])];
        let before = *head;
        self.previous[position % WINDOW] = before;
        *head = (position + self.base) as u32;
        before as usize
    }

    /// Uses a match as soon as there is one.
    fn greedy(&mut self, ahead: usize, longest_entered: usize) -> io::Result<()> {
        let position = self.position;
        self.found = NO_MATCH;
        if ahead >= SHORTEST
            && let Some(found) = self.search(ahead)
        {
            self.found = found;
        }
        let Match { length, distance } = self.found;
        if length < SHORTEST {
            self.position += 1;
            return self.push(Token::literal(self.window[position]), position + 1);
        }
        if length <= longest_entered {
            self.enter(position + 1, position + length);
        }
        self.position += length;
        self.push(Token::matched(length, distance), self.position)
    }

    /// Uses the match at the previous byte, unless the match at this one is longer.
    fn lazy(&mut self, ahead: usize) -> io::Result<()> {
        let position = self.position;
        let before = std::mem::replace(&mut self.found, NO_MATCH);
        if ahead > before.length
            && before.length < self.effort.lazy
            && let Some(found) = self.search(ahead)
        {
            self.found = found;
        }
        if before.length >= SHORTEST && self.found.length <= before.length {
            let end = position + before.length - 1;
            self.enter(position + 1, end);
            self.position = end;
            self.pending = false;
            self.found = NO_MATCH;
            return self.push(Token::matched(before.length, before.distance), end);
        }
        self.position += 1;
        if std::mem::replace(&mut self.pending, true) {
            return self.push(Token::literal(self.window[position - 1]), position);
        }
        Ok(())
    }

    /// Inserts the positions inside a match.
    fn enter(&mut self, from: usize, to: usize) {
        for position in from..to.min(self.hashable) {
            self.insert(position);
        }
    }

    /// Returns the longest match at `position` along the chain.
    fn search(&self, ahead: usize) -> Option<Match> {
        let position = self.position;
        // A position further back is overwritten in the tables, or out of reach.
        let oldest = position.saturating_sub(WINDOW);
        let mut candidate = self.chain.checked_sub(self.base)?;
        if candidate < oldest {
            return None;
        }
        let window = &self.window[..position + ahead.min(LONGEST)];
        let wanted = &window[position..];
        let nice = self.effort.nice.min(wanted.len());
        let mut best: Option<Match> = None;
        let mut length = NO_MATCH.length;
        let mut last = wanted[length];
        for _ in 0..self.effort.tries {
            if window[candidate + length] == last {
                let distance = position - candidate;
                let matching = same(wanted, &window[candidate..]);
                // A short match at a large distance is larger than its literals.
                if matching > length && (matching > SHORTEST || distance <= 4096) {
                    length = matching;
                    best = Some(Match { length, distance });
                    if length >= nice {
                        break;
                    }
                    last = wanted[length];
                }
            }
            if position - candidate == WINDOW {
                break;
            }
            match (self.previous[candidate % WINDOW] as usize).checked_sub(self.base) {
                Some(next) if next >= oldest => candidate = next,
                _ => break,
            }
        }
        best
    }
}

//! Levels 7 to 9: hash chains over a window of 32 KiB, with lazy matching until the next match is
//! not better.

use std::io::{self, Write};

use super::blocks::Blocks;
use super::chains::{Chains, SHORTEST, WINDOW};
use super::costs::{Costs, LEAST_GAIN};
use super::tokens::Tokens;
use crate::symbols::same;

const LONGEST: usize = 258;
/// Number of bytes that must be known after a position before it is searched.
const LOOKAHEAD: usize = SHORTEST + LONGEST;
/// Maximum number of tokens in a block.
pub(super) const BLOCK_TOKENS: usize = 1 << 15;
/// A match that ends later may begin up to this number of bytes later.
const LATER: usize = 2;

/// The parameters of a level.
#[derive(Debug, Clone, Copy)]
struct Effort {
    /// Length of a match from which on the next byte is not searched for a better one.
    lazy: usize,
    /// Length of a match that ends the search.
    nice: usize,
    /// Maximum number of positions that are compared.
    tries: usize,
}

fn effort(level: i8) -> Effort {
    let (lazy, nice, tries) = match level {
        ..=7 => (12, 16, 24),
        8 => (30, 40, 64),
        9.. => (258, 258, 1024),
    };
    Effort { lazy, nice, tries }
}

/// The differences between the releases.
#[derive(Debug, Clone, Copy)]
pub(super) struct Differences {
    /// Whether the costs of literals come from all bytes ahead, or from the first half of a
    /// window.
    pub(super) all_ahead: bool,
    /// Minimum cost of a literal in bits.
    pub(super) least_cost: u8,
    /// Whether the input of a block excludes the dictionary.
    pub(super) begins_behind: bool,
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

/// The encoder of levels 7 to 9.
pub(super) struct Lazy {
    effort: Effort,
    differences: Differences,
    tokens: Tokens,
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
    chains: Chains,
    /// Number of literals since the last match; starts again at 0 after 64 KiB.
    fruitless: u16,
    /// The costs of literals; level 9 only.
    costs: Option<Costs>,
}

impl Lazy {
    /// `level` is 7 to 9.
    pub(super) fn new(level: i8, differences: Differences) -> Self {
        let effort = effort(level);
        let costs = (level > 8).then(|| Costs::new(differences));
        Self {
            effort,
            differences,
            tokens: Tokens::new(),
            window: vec![0; 2 * WINDOW],
            end: 0,
            position: 0,
            block_start: Some(0),
            pending: false,
            found: NO_MATCH,
            hashable: 0,
            chains: Chains::new(),
            fruitless: 0,
            costs,
        }
    }

    pub(super) fn write<W: Write>(
        &mut self,
        blocks: &mut Blocks<W>,
        mut data: &[u8],
    ) -> io::Result<()> {
        while !data.is_empty() {
            if self.end == self.window.len() {
                self.compress(blocks, false)?;
            }
            data = &data[self.fill(data)..];
        }
        Ok(())
    }

    /// Sets the state as after a long stream.
    #[cfg(test)]
    pub(super) fn nearly_too_long(&mut self) {
        self.chains.nearly_too_long();
    }

    /// Writes the block.
    pub(super) fn flush<W: Write>(&mut self, blocks: &mut Blocks<W>) -> io::Result<()> {
        self.compress(blocks, true)
    }

    /// Starts again, with a dictionary of less than a window: bytes that count as written
    /// before.
    pub(super) fn restart(&mut self, before: &[u8]) {
        self.chains.clear();
        self.tokens.clear();
        self.window[..before.len()].copy_from_slice(before);
        self.end = before.len();
        self.position = before.len();
        self.block_start = Some(if self.differences.begins_behind {
            before.len()
        } else {
            0
        });
        self.pending = false;
        self.found = NO_MATCH;
        self.fruitless = 0;
        for position in 0..before.len().saturating_sub(SHORTEST - 1) {
            self.chains.insert(&self.window, position);
        }
    }

    /// Copies as many bytes into the window as fit. Moves the window first, if all of it is
    /// compressed.
    fn fill(&mut self, data: &[u8]) -> usize {
        if self.position >= 2 * WINDOW - LOOKAHEAD {
            self.window.copy_within(WINDOW.., 0);
            self.position -= WINDOW;
            self.end -= WINDOW;
            self.block_start = self.block_start.and_then(|start| start.checked_sub(WINDOW));
            self.chains.advance();
        }
        let count = data.len().min(self.window.len() - self.end);
        self.window[self.end..self.end + count].copy_from_slice(&data[..count]);
        self.end += count;
        count
    }

    /// Compresses while enough bytes are known, or up to the end of the content.
    fn compress<W: Write>(&mut self, blocks: &mut Blocks<W>, to_the_end: bool) -> io::Result<()> {
        if !to_the_end && self.end - self.position < LOOKAHEAD {
            return Ok(());
        }
        if let Some(costs) = &mut self.costs
            && self.position < self.end
        {
            costs.count(self.position, &self.window[self.position..self.end]);
        }
        self.hashable = self.end.saturating_sub(SHORTEST - 1);
        let mut out = Out { blocks, to_the_end };
        loop {
            let ahead = self.end - self.position;
            if ahead < LOOKAHEAD && !to_the_end {
                return Ok(());
            }
            if ahead == 0 {
                return self.end_block(&mut out);
            }
            self.step(&mut out, ahead)?;
        }
    }

    fn end_block<W: Write>(&mut self, out: &mut Out<'_, W>) -> io::Result<()> {
        if std::mem::replace(&mut self.pending, false) {
            self.tokens.literal(self.window[self.position - 1]);
        }
        if self.tokens.list.is_empty() {
            Ok(())
        } else {
            self.block(out)
        }
    }

    /// Writes the tokens of the block.
    fn block<W: Write>(&mut self, out: &mut Out<'_, W>) -> io::Result<()> {
        let start = self.block_start.filter(|start| *start <= self.position);
        let input = start.map(|start| &self.window[start..self.position]);
        out.blocks.tokens(&self.tokens, input, out.to_the_end)?;
        self.block_start = Some(self.position);
        self.tokens.clear();
        Ok(())
    }

    fn block_if_full<W: Write>(&mut self, out: &mut Out<'_, W>) -> io::Result<()> {
        if self.tokens.list.len() == BLOCK_TOKENS {
            self.block(out)
        } else {
            Ok(())
        }
    }

    #[inline]
    fn insert_here(&mut self) {
        if self.position < self.hashable {
            self.chains.begin(&self.window, self.position);
        }
    }

    /// Handles one position: uses the match at the previous byte, unless the match at this one
    /// is longer.
    fn step<W: Write>(&mut self, out: &mut Out<'_, W>, ahead: usize) -> io::Result<()> {
        self.insert_here();
        let before = std::mem::replace(&mut self.found, NO_MATCH);
        if ahead > before.length
            && before.length < self.effort.lazy
            && let Some(found) = self.search(ahead)
        {
            self.found = found;
        }
        if before.length >= SHORTEST && self.found.length <= before.length {
            return self.take(out, before, ahead);
        }
        if self.found.length >= SHORTEST {
            self.fruitless = 0;
        }
        if !std::mem::replace(&mut self.pending, true) {
            self.position += 1;
            return Ok(());
        }
        self.fruitless = self.fruitless.wrapping_add(1);
        self.tokens.literal(self.window[self.position - 1]);
        self.block_if_full(out)?;
        self.position += 1;
        match usize::from(self.fruitless).checked_sub(self.effort.tries) {
            None | Some(0) => Ok(()),
            Some(more) => self.pass_over(out, 1 + (more >> 6)),
        }
    }

    /// Adds more literals without a search, after a long distance without a match.
    fn pass_over<W: Write>(&mut self, out: &mut Out<'_, W>, count: usize) -> io::Result<()> {
        for _ in 0..count {
            if self.position + 1 >= self.end {
                break;
            }
            self.tokens.literal(self.window[self.position - 1]);
            self.block_if_full(out)?;
            self.insert_here();
            self.position += 1;
        }
        self.tokens.literal(self.window[self.position - 1]);
        self.pending = false;
        self.block_if_full(out)
    }

    /// Uses the match at the previous byte, or one that ends later.
    fn take<W: Write>(
        &mut self,
        out: &mut Out<'_, W>,
        before: Match,
        ahead: usize,
    ) -> io::Result<()> {
        let Match { length, distance } = match self.ends_further_on(before, ahead) {
            Some((further, skipped)) => {
                self.skip(out, skipped)?;
                further
            }
            None => before,
        };
        self.tokens.matched(length, distance);
        let end = self.position + length - 1;
        for position in self.position + 1..end.min(self.hashable) {
            self.chains.insert(&self.window, position);
        }
        self.position = end;
        self.pending = false;
        self.found = NO_MATCH;
        self.block_if_full(out)?;
        self.fruitless = 0;
        Ok(())
    }

    /// Returns a longer match to which the bytes after this one point, and how many bytes later
    /// it begins.
    fn ends_further_on(&self, before: Match, ahead: usize) -> Option<(Match, usize)> {
        let begin = self.position - 1;
        let behind = begin + before.length;
        if before.length >= LONGEST - LATER || behind >= self.hashable {
            return None;
        }
        let seen = self.chains.newest(&self.window[behind..])?;
        let from = seen.checked_sub(before.length)?;
        let distance = begin.checked_sub(from)?;
        let oldest = self.position.saturating_sub(WINDOW);
        if distance == before.distance || from <= oldest + LATER {
            return None;
        }
        let end = begin + ahead.min(LONGEST + LATER);
        let wanted = &self.window[begin + LATER..end];
        let mut length = same(wanted, &self.window[from + LATER..]);
        if length <= before.length {
            return None;
        }
        let mut skipped = LATER;
        while skipped > 0
            && length < LONGEST
            && self.window[begin + skipped - 1] == self.window[from + skipped - 1]
        {
            skipped -= 1;
            length += 1;
        }
        Some((Match { length, distance }, skipped))
    }

    /// Adds the literals before a match that begins later.
    fn skip<W: Write>(&mut self, out: &mut Out<'_, W>, count: usize) -> io::Result<()> {
        let begin = self.position - 1;
        for place in begin..begin + count {
            self.tokens.literal(self.window[place]);
            self.block_if_full(out)?;
            self.position += 1;
            self.insert_here();
        }
        Ok(())
    }

    /// Returns the longest match at `position` along the chain; on level 9, the match that saves
    /// most bits.
    fn search(&self, ahead: usize) -> Option<Match> {
        let position = self.position;
        // A position further back is overwritten in the tables, or out of reach.
        let oldest = position.saturating_sub(WINDOW);
        let mut candidate = self.chains.first()?;
        if candidate < oldest {
            return None;
        }
        let window = &self.window[..position + ahead.min(LONGEST)];
        let wanted = &window[position..];
        let nice = self.effort.nice.min(wanted.len());
        let mut best: Option<Match> = None;
        let mut gain = LEAST_GAIN;
        let mut gains = |length, distance| match &self.costs {
            None => true,
            Some(costs) => {
                let saved = costs.saved(position, length, distance);
                let more = saved > gain;
                gain = gain.max(saved);
                more
            }
        };
        let mut length = NO_MATCH.length;
        let mut last = wanted[length];
        for _ in 0..self.effort.tries {
            if window[candidate + length] == last {
                let distance = position - candidate;
                let matching = same(wanted, &window[candidate..]);
                if matching > length && gains(matching, distance) {
                    length = matching;
                    best = Some(Match { length, distance });
                    if length >= nice {
                        break;
                    }
                    last = wanted[length];
                }
            }
            if candidate <= oldest {
                break;
            }
            match self.chains.before(candidate) {
                Some(next) if next >= oldest => candidate = next,
                _ => break,
            }
        }
        best
    }
}

/// The writer of blocks. At the end of the content they do not stay open.
struct Out<'a, W> {
    blocks: &'a mut Blocks<W>,
    to_the_end: bool,
}

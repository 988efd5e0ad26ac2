//! Levels 7 to 9: hash chains over a window of 32 KiB, and lazy matching until the next match is no
//! better.

use std::io::{self, Write};

use super::blocks::Blocks;
use super::chains::{Chains, SHORTEST, WINDOW};
use super::costs::{Costs, LEAST_GAIN};
use super::tokens::Tokens;
use crate::symbols::same;

const LONGEST: usize = 258;
/// What must be known ahead of a position before it is looked at.
const LOOKAHEAD: usize = SHORTEST + LONGEST;
/// A block holds this many tokens.
pub(super) const BLOCK_TOKENS: usize = 1 << 15;
/// A match that ends further on may begin so much later.
const LATER: usize = 2;

/// What a level trades time against size with.
#[derive(Debug, Clone, Copy)]
struct Effort {
    /// A match as long as this is not bettered at the next byte.
    lazy: usize,
    /// A match as long as this ends the search.
    nice: usize,
    /// Positions that are tried.
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

/// In what the releases differ.
#[derive(Debug, Clone, Copy)]
pub(super) struct Habits {
    /// Literals' costs are taken from all that lies ahead, not from the first half of a window.
    pub(super) all_ahead: bool,
    /// A literal costs one bit at the least.
    pub(super) least_cost: u8,
    /// A block's input does not begin with what counts as written before.
    pub(super) begins_behind: bool,
}

/// A match: how long, and how far back.
#[derive(Debug, Clone, Copy)]
struct Match {
    length: usize,
    distance: usize,
}

const NO_MATCH: Match = Match {
    length: SHORTEST - 1,
    distance: 0,
};

/// Levels 7 to 9 at work.
pub(super) struct Lazy {
    effort: Effort,
    habits: Habits,
    tokens: Tokens,
    /// Twice the window: the half behind, and what lies ahead.
    window: Vec<u8>,
    end: usize,
    position: usize,
    /// Where the tokens of the block begin, while that is in the window still.
    block_start: Option<usize>,
    /// Whether the byte before `position` is not yet in a token.
    pending: bool,
    found: Match,
    /// Positions before this one have all the bytes that a hash takes.
    hashable: usize,
    chains: Chains,
    /// Literals since the last match; begins anew after 64 KiB.
    fruitless: u16,
    /// What literals cost; level 9.
    costs: Option<Costs>,
}

impl Lazy {
    /// `level` is 7 to 9.
    pub(super) fn new(level: i8, habits: Habits) -> Self {
        let effort = effort(level);
        let costs = (level > 8).then(|| Costs::new(habits));
        Self {
            effort,
            habits,
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

    /// As if much had been written before.
    #[cfg(test)]
    pub(super) fn nearly_too_long(&mut self) {
        self.chains.nearly_too_long();
    }

    /// Writes what there is.
    pub(super) fn flush<W: Write>(&mut self, blocks: &mut Blocks<W>) -> io::Result<()> {
        self.compress(blocks, true)
    }

    /// Begins anew, with bytes that count as if they had been written before: less than a window.
    pub(super) fn restart(&mut self, before: &[u8]) {
        self.chains.clear();
        self.tokens.clear();
        self.window[..before.len()].copy_from_slice(before);
        self.end = before.len();
        self.position = before.len();
        self.block_start = Some(match self.habits.begins_behind {
            true => before.len(),
            false => 0,
        });
        self.pending = false;
        self.found = NO_MATCH;
        self.fruitless = 0;
        for position in 0..before.len().saturating_sub(SHORTEST - 1) {
            self.chains.insert(&self.window, position);
        }
    }

    /// Takes as much as fits, after moving on by a window where there is nothing more to do.
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

    /// Goes on while enough lies ahead, or to the very end.
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
        match self.tokens.list.is_empty() {
            true => Ok(()),
            false => self.block(out),
        }
    }

    /// Writes the tokens.
    fn block<W: Write>(&mut self, out: &mut Out<'_, W>) -> io::Result<()> {
        let start = self.block_start.filter(|start| *start <= self.position);
        let input = start.map(|start| &self.window[start..self.position]);
        out.blocks.tokens(&self.tokens, input, out.to_the_end)?;
        self.block_start = Some(self.position);
        self.tokens.clear();
        Ok(())
    }

    fn block_if_full<W: Write>(&mut self, out: &mut Out<'_, W>) -> io::Result<()> {
        match self.tokens.list.len() == BLOCK_TOKENS {
            true => self.block(out),
            false => Ok(()),
        }
    }

    #[inline]
    fn insert_here(&mut self) {
        if self.position < self.hashable {
            self.chains.begin(&self.window, self.position);
        }
    }

    /// Looks at one position: takes the match of the byte before, unless the one that begins here is
    /// longer.
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

    /// Takes more literals without a search, where there was no match for long.
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

    /// Takes the match of the byte before, or one that ends further on.
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

    /// A longer match that the bytes behind this one point to, and how many bytes later it begins.
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

    /// Takes literals before a match that begins later.
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

    /// The longest match for the bytes at `position`, along the chain, or on level 9 the one that
    /// saves most.
    fn search(&self, ahead: usize) -> Option<Match> {
        let position = self.position;
        // Further back than this a position in the tables is overwritten or out of reach.
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

/// Where blocks go; at the end they do not stay open.
struct Out<'a, W> {
    blocks: &'a mut Blocks<W>,
    to_the_end: bool,
}

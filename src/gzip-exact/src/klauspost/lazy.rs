//! Levels 7 to 9: hash chains over a window of 32 KiB, and lazy matching until the next match is no
//! better.

use std::io::{self, Write};

use super::blocks::Blocks;
use super::history::hash4;
use super::tokens::Tokens;
use crate::huffman;
use crate::symbols::{LONGEST_CODE, distance_code, length_code, same};

const WINDOW: usize = 1 << 15;
const SHORTEST: usize = 4;
const LONGEST: usize = 258;
/// What must be known ahead of a position before it is looked at.
const LOOKAHEAD: usize = SHORTEST + LONGEST;
const HASH_BITS: u32 = 17;
/// A block holds this many tokens.
const BLOCK_TOKENS: usize = 1 << 15;
/// Positions are moved down before they outgrow their 32 bits.
const LARGEST_BASE: usize = 1 << 28;
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
    /// Newest position of each hash, and the one before of each position; plus `base`.
    heads: Vec<u32>,
    previous: Vec<u32>,
    /// Where the chain of the last position that was hashed begins.
    chain: usize,
    /// Added to positions in the tables: 0 is no position.
    base: usize,
    /// Literals since the last match; begins anew after 64 KiB.
    fruitless: u16,
    /// Costs of the literals before each position, from where they were last counted; level 9.
    costs: Vec<u32>,
}

impl Lazy {
    /// `level` is 7 to 9.
    pub(super) fn new(level: i8, habits: Habits) -> Self {
        let effort = effort(level);
        let costs = match effort.tries > 100 {
            true => vec![0; 2 * WINDOW + 1],
            false => Vec::new(),
        };
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
            heads: vec![0; 1 << HASH_BITS],
            previous: vec![0; WINDOW],
            chain: 0,
            base: 1,
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

    /// Writes what there is.
    pub(super) fn flush<W: Write>(&mut self, blocks: &mut Blocks<W>) -> io::Result<()> {
        self.compress(blocks, true)
    }

    /// Begins anew, with bytes that count as if they had been written before: less than a window.
    pub(super) fn restart(&mut self, before: &[u8]) {
        self.heads.fill(0);
        self.previous.fill(0);
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
        self.chain = 0;
        self.base = 1;
        self.fruitless = 0;
        for position in 0..before.len().saturating_sub(SHORTEST - 1) {
            self.insert(position);
        }
    }

    /// Takes as much as fits, after moving on by a window where there is nothing more to do.
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
        let down = self.base - 1;
        for position in self.heads.iter_mut().chain(&mut self.previous) {
            *position = position.saturating_sub(down as u32);
        }
        self.chain = self.chain.saturating_sub(down);
        self.base = 1;
    }

    /// Goes on while enough lies ahead, or to the very end.
    fn compress<W: Write>(&mut self, blocks: &mut Blocks<W>, to_the_end: bool) -> io::Result<()> {
        if !to_the_end && self.end - self.position < LOOKAHEAD {
            return Ok(());
        }
        self.count_costs();
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

    /// Estimates what literals will cost, by how frequent they are ahead.
    fn count_costs(&mut self) {
        let ahead = &self.window[self.position..self.end];
        if ahead.is_empty() || self.costs.is_empty() {
            return;
        }
        let counted = match self.habits.all_ahead {
            true => ahead,
            false => &ahead[..ahead.len().min(BLOCK_TOKENS)],
        };
        // In 16 bits: two windows of the same byte count as none.
        let mut frequencies = [0u16; 256];
        for byte in counted {
            let frequency = &mut frequencies[usize::from(*byte)];
            *frequency = frequency.wrapping_add(1);
        }
        let codes = huffman::codes(&frequencies.map(u32::from), LONGEST_CODE);
        let mut sum = 0;
        let costs = self.costs[self.position..=self.end].iter_mut();
        for (cost, byte) in costs.zip(ahead.iter().chain(&[0])) {
            *cost = sum;
            let length = codes[usize::from(*byte)].length;
            sum += u32::from(length.max(self.habits.least_cost));
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

    /// Enters a position into the tables; gives the newest before it with its hash.
    #[inline]
    fn insert(&mut self, position: usize) -> usize {
        let head = &mut self.heads[hash(&self.window[position..])];
        let before = *head;
        self.previous[position % WINDOW] = before;
        *head = (position + self.base) as u32;
        before as usize
    }

    #[inline]
    fn insert_here(&mut self) {
        if self.position < self.hashable {
            self.chain = self.insert(self.position);
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
            self.insert(position);
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
        let seen = self.heads[hash(&self.window[behind..])] as usize;
        let from = seen.checked_sub(self.base + before.length)?;
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
        let mut candidate = self.chain.checked_sub(self.base)?;
        if candidate < oldest {
            return None;
        }
        let window = &self.window[..position + ahead.min(LONGEST)];
        let wanted = &window[position..];
        let nice = self.effort.nice.min(wanted.len());
        let mut best: Option<Match> = None;
        let mut gain = 4;
        let mut length = NO_MATCH.length;
        let mut last = wanted[length];
        for _ in 0..self.effort.tries {
            if window[candidate + length] == last {
                let distance = position - candidate;
                let matching = same(wanted, &window[candidate..]);
                if matching > length && self.gains(matching, distance, &mut gain) {
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
            match (self.previous[candidate % WINDOW] as usize).checked_sub(self.base) {
                Some(next) if next >= oldest => candidate = next,
                _ => break,
            }
        }
        best
    }

    /// Whether a match saves more bits than the best one so far, where that counts.
    #[inline]
    fn gains(&self, length: usize, distance: usize, best: &mut i64) -> bool {
        /// What a match costs besides its extra bits.
        const COST: u32 = 3;
        if self.costs.is_empty() {
            return true;
        }
        let literals = self.costs[self.position + length] - self.costs[self.position];
        // Distances count as one longer than they are; the farthest, then, as 128.
        let counted = match distance {
            WINDOW => 128,
            _ => distance as u32,
        };
        let extra = distance_code(counted).1 + length_code(length as u32 - 3).1;
        let gain = i64::from(literals) - i64::from(COST + extra);
        let better = gain > *best;
        if better {
            *best = gain;
        }
        better
    }
}

/// Where blocks go; at the end they do not stay open.
struct Out<'a, W> {
    blocks: &'a mut Blocks<W>,
    to_the_end: bool,
}

#[inline]
fn hash(bytes: &[u8]) -> usize {
    match bytes.first_chunk() {
        Some(bytes) => hash4::<HASH_BITS>(u32::from_le_bytes(*bytes).into()),
        None => 0,
    }
}

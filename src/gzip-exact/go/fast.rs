//! Level 1: blocks of 64 KiB, one candidate per hash.
//!
//! As in [`super::chain`], the search finds and misses the same matches as Go's `compress/flate` up
//! to Go 1.26.

use std::io::{self, Write};

use super::block::BlockWriter;
use crate::symbols::{LARGEST_STORED, Token};

const TABLE_BITS: u32 = 14;
const FARTHEST: i64 = 1 << 15;
const LONGEST: usize = 258;
/// Number of bytes at the end of a block that are not searched.
const MARGIN: usize = 15;
/// Content of at most this many bytes at the end of the stream is not searched.
const SHORTEST_LAST: usize = 128;
/// Content of at most this many bytes is stored.
const SHORTEST_CODED: usize = 16;

/// Four bytes and the position where they were seen last.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    bytes: u32,
    place: i64,
}

/// Compresses the content that is written to it.
pub(crate) struct FastEncoder<W> {
    blocks: BlockWriter<W>,
    block: Vec<u8>,
    before: Vec<u8>,
    tokens: Vec<Token>,
    table: Vec<Seen>,
    /// Position of the block's first byte.
    start: i64,
}

fn slot(bytes: u32) -> usize {
    (bytes.wrapping_mul(0x1e35_a7bd) >> (32 - TABLE_BITS)) as usize
}

fn four(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl<W: Write> FastEncoder<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            blocks: BlockWriter::new(out),
            block: Vec::with_capacity(LARGEST_STORED),
            before: Vec::with_capacity(LARGEST_STORED),
            tokens: Vec::with_capacity(LARGEST_STORED),
            table: vec![Seen::default(); 1 << TABLE_BITS],
            // Large enough that an empty slot is out of reach.
            start: LARGEST_STORED as i64,
        }
    }

    /// Returns the writer that receives the output.
    pub(super) fn out(&mut self) -> &mut W {
        self.blocks.out()
    }

    pub(super) fn write(&mut self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            if self.block.len() == LARGEST_STORED {
                self.compress()?;
            }
            let count = data.len().min(LARGEST_STORED - self.block.len());
            self.block.extend_from_slice(&data[..count]);
            data = &data[count..];
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<W> {
        match self.block.len() {
            0 => {}
            1..=SHORTEST_CODED => self.blocks.stored(&self.block)?,
            length if length < SHORTEST_LAST => self.blocks.literals_only(&self.block)?,
            _ => self.compress()?,
        }
        self.blocks.finish()
    }

    fn compress(&mut self) -> io::Result<()> {
        self.tokens.clear();
        self.search();
        let length = self.block.len();
        if self.tokens.len() > length - (length >> 4) {
            self.blocks.literals_only(&self.block)?;
        } else {
            self.blocks.dynamic(&self.tokens, &self.block)?;
        }
        std::mem::swap(&mut self.block, &mut self.before);
        self.block.clear();
        Ok(())
    }

    fn literals(&mut self, from: usize, to: usize) {
        let bytes = &self.block[from..to];
        self.tokens
            .extend(bytes.iter().map(|byte| Token::literal(*byte)));
    }

    /// Records that `bytes` are at `at`. Returns the position where they were seen before, if it
    /// is in reach.
    fn look(&mut self, bytes: u32, at: usize) -> Option<i64> {
        let place = self.start + at as i64;
        let seen = std::mem::replace(&mut self.table[slot(bytes)], Seen { bytes, place });
        (seen.bytes == bytes && place - seen.place <= FARTHEST).then_some(seen.place - self.start)
    }

    /// Converts the block to tokens. The block is longer than the margin.
    fn search(&mut self) {
        let length = self.block.len();
        let limit = length - MARGIN;
        let (mut at, mut coded) = (0, 0);
        'block: loop {
            // The distance between searched positions grows while no match is found.
            let mut patience = 32;
            let mut next = at;
            let mut candidate = loop {
                at = next;
                let step = patience >> 5;
                next = at + step;
                patience += step;
                if next > limit {
                    break 'block;
                }
                if let Some(candidate) = self.look(four(&self.block, at), at) {
                    break candidate;
                }
            };
            self.literals(coded, at);
            loop {
                let matched = 4 + self.extend(at + 4, candidate + 4);
                let distance = (at as i64 - candidate) as usize;
                self.tokens.push(Token::matched(matched, distance));
                at += matched;
                coded = at;
                if at >= limit {
                    break 'block;
                }
                let bytes = four(&self.block, at - 1);
                let place = self.start + at as i64 - 1;
                self.table[slot(bytes)] = Seen { bytes, place };
                match self.look(four(&self.block, at), at) {
                    Some(again) => candidate = again,
                    None => break,
                }
            }
            at += 1;
        }
        self.literals(coded, length);
        self.start += length as i64;
    }

    /// Returns how many bytes are equal at `at` and at `from`, which may be in the previous
    /// block.
    fn extend(&self, at: usize, from: i64) -> usize {
        let end = (at + LONGEST - 4).min(self.block.len());
        let wanted = &self.block[at..end];
        let equal = |a: &[u8], b: &[u8]| a.iter().zip(b).take_while(|(x, y)| x == y).count();
        if let Ok(from) = usize::try_from(from) {
            return equal(wanted, &self.block[from..]);
        }
        let Some(from) = self.before.len().checked_sub(from.unsigned_abs() as usize) else {
            return 0;
        };
        let behind = &self.before[from..];
        let matched = equal(wanted, behind);
        if matched < behind.len() || matched == wanted.len() {
            return matched;
        }
        matched + equal(&wanted[matched..], &self.block)
    }
}

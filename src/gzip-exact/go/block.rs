//! Writes blocks (RFC 1951, section 3.2). Go's `compress/flate` chooses between stored, fixed and
//! dynamic blocks; this module makes the same choices.

use std::io::{self, Write};

use crate::bits::BitWriter;
use crate::dynamic::Header;
use crate::huffman;
use crate::symbols::{
    Code, DISTANCES, END_OF_BLOCK, FIRST_LENGTH, FIXED, LARGEST_STORED, LITERALS, LONGEST_CODE,
    Token, cost, distance_code, extra_bits, length_code,
};

/// Writes blocks.
pub(super) struct BlockWriter<W> {
    bits: BitWriter<W>,
    literals: [u32; LITERALS],
    distances: [u32; DISTANCES],
}

/// Returns whether a stored block is the better choice than a dynamic one.
fn hardly_smaller(input: &[u8], size: u64) -> bool {
    (input.len() as u64 + 5) * 8 < size + (size >> 4)
}

impl<W: Write> BlockWriter<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            bits: BitWriter::new(out),
            literals: [0; LITERALS],
            distances: [0; DISTANCES],
        }
    }

    /// Returns the writer that receives the output.
    pub(super) fn out(&mut self) -> &mut W {
        self.bits.out()
    }

    /// Writes tokens in the smallest form. `input` is the content that they stand for; without
    /// it, the block is never stored.
    pub(super) fn smallest(&mut self, tokens: &[Token], input: Option<&[u8]>) -> io::Result<()> {
        let input = input.filter(|input| input.len() <= LARGEST_STORED);
        let (literals, distances) = self.count(tokens);
        let literal_codes = huffman::codes(&self.literals, LONGEST_CODE);
        let distance_codes = huffman::codes(&self.distances, LONGEST_CODE);
        let header = Header::new(&literal_codes[..literals], &distance_codes[..distances]);
        // The extra bits of lengths and distances have the same size in both codes. They
        // matter only for the comparison with a stored block.
        let extra = if input.is_some() {
            extra_bits(&self.literals, &self.distances)
        } else {
            0
        };
        let tokens_cost = |literals: &[Code], distances: &[Code]| {
            cost(literals, &self.literals) + cost(distances, &self.distances)
        };
        let fixed = 3 + tokens_cost(&FIXED.0, &FIXED.1) + extra;
        let dynamic = header.cost + tokens_cost(&literal_codes, &distance_codes) + extra;
        match input {
            Some(input) if (input.len() as u64 + 5) * 8 < fixed.min(dynamic) => {
                return self.stored(input);
            }
            _ if dynamic < fixed => {
                header.write(&mut self.bits);
                self.bits.tokens(tokens, &literal_codes, &distance_codes);
            }
            _ => {
                self.bits.put(0b010, 3);
                self.bits.tokens(tokens, &FIXED.0, &FIXED.1);
            }
        }
        self.bits.drain()
    }

    /// Writes tokens in a dynamic block, unless a stored block is about as small.
    pub(super) fn dynamic(&mut self, tokens: &[Token], input: &[u8]) -> io::Result<()> {
        let (literals, distances) = self.count(tokens);
        let literal_codes = huffman::codes(&self.literals, LONGEST_CODE);
        let distance_codes = huffman::codes(&self.distances, LONGEST_CODE);
        let header = Header::new(&literal_codes[..literals], &distance_codes[..distances]);
        let size = header.cost
            + cost(&literal_codes, &self.literals)
            + cost(&distance_codes, &self.distances);
        if hardly_smaller(input, size) {
            return self.stored(input);
        }
        header.write(&mut self.bits);
        self.bits.tokens(tokens, &literal_codes, &distance_codes);
        self.bits.drain()
    }

    /// Writes bytes as literals only, unless a stored block is about as small.
    pub(super) fn literals_only(&mut self, input: &[u8]) -> io::Result<()> {
        self.literals.fill(0);
        for byte in input {
            self.literals[usize::from(*byte)] += 1;
        }
        self.literals[END_OF_BLOCK] = 1;
        let codes = huffman::codes(&self.literals, LONGEST_CODE);
        let no_distance = [Code { bits: 0, length: 1 }];
        let header = Header::new(&codes[..=END_OF_BLOCK], &no_distance);
        // Go counts one bit more than it writes: the one distance that a header must list
        // counts as used.
        let size = header.cost + cost(&codes, &self.literals) + 1;
        if hardly_smaller(input, size) {
            return self.stored(input);
        }
        header.write(&mut self.bits);
        self.bits.literals(input, &codes);
        self.bits.code(codes[END_OF_BLOCK]);
        self.bits.drain()
    }

    /// Writes a stored block of at most [`LARGEST_STORED`] bytes.
    pub(super) fn stored(&mut self, input: &[u8]) -> io::Result<()> {
        self.stored_header(input.len() as u16, false);
        self.bits.bytes(input);
        self.bits.drain()
    }

    /// Ends the stream with an empty stored block.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.stored_header(0, true);
        self.bits.finish()
    }

    fn stored_header(&mut self, length: u16, last: bool) {
        self.bits.put(last.into(), 3);
        self.bits.align();
        self.bits.put(length.into(), 16);
        self.bits.put((!length).into(), 16);
    }

    /// Counts symbols. Returns how many codes of each kind a header must list.
    fn count(&mut self, tokens: &[Token]) -> (usize, usize) {
        self.literals.fill(0);
        self.distances.fill(0);
        for token in tokens {
            match token.split() {
                Ok(literal) => self.literals[literal] += 1,
                Err((length, distance)) => {
                    self.literals[FIRST_LENGTH + length_code(length).0] += 1;
                    self.distances[distance_code(distance).0] += 1;
                }
            }
        }
        self.literals[END_OF_BLOCK] = 1;
        let used = |frequencies: &[u32]| frequencies.iter().rposition(|f| *f > 0).map(|p| p + 1);
        let distances = used(&self.distances).unwrap_or_else(|| {
            // A header lists at least one distance code, even if no distance is used.
            self.distances[0] = 1;
            1
        });
        (used(&self.literals).unwrap_or(FIRST_LENGTH), distances)
    }
}

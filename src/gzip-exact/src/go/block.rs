//! Blocks (RFC 1951, section 3.2), with the choices that Go's `compress/flate` makes: which of
//! stored, fixed and dynamic is written, and how a dynamic block's header is run-length encoded.

use std::io::{self, Write};

use super::huffman;
use crate::bits::BitWriter;
use crate::symbols::{
    Code, DISTANCES, END_OF_BLOCK, FIRST_LENGTH, FIXED, HEADER_ORDER, LARGEST_STORED, LITERALS,
    LONGEST_CODE, Token, cost, distance_code, length_code,
};

/// Writes blocks.
pub(super) struct BlockWriter<W> {
    bits: BitWriter<W>,
    literals: [u32; LITERALS],
    distances: [u32; DISTANCES],
}

/// The run-length encoded lengths of a dynamic block's codes, and the code that they are in.
struct Header {
    /// Symbol, and value and number of its extra bits.
    symbols: Vec<(u8, u32, u32)>,
    codes: Vec<Code>,
    /// How many of [`HEADER_ORDER`] are listed.
    listed: usize,
    /// Bits of the whole header, the block's own three included.
    cost: u64,
    literals: usize,
    distances: usize,
}

impl Header {
    fn new(literals: &[Code], distances: &[Code]) -> Self {
        let lengths: Vec<u8> = literals
            .iter()
            .chain(distances)
            .map(|code| code.length)
            .collect();
        let symbols = run_lengths(&lengths);
        let mut frequencies = [0u32; 19];
        for (symbol, ..) in &symbols {
            frequencies[usize::from(*symbol)] += 1;
        }
        let codes = huffman::codes(&frequencies, 7);
        let used = |place: &usize| frequencies[HEADER_ORDER[*place]] != 0;
        let listed = (4..19).rev().find(used).map_or(4, |last| last + 1);
        let extra: u64 = symbols.iter().map(|(_, _, bits)| u64::from(*bits)).sum();
        let cost = 3 + 5 + 5 + 4 + 3 * listed as u64 + cost(&codes, &frequencies) + extra;
        Self {
            symbols,
            codes,
            listed,
            cost,
            literals: literals.len(),
            distances: distances.len(),
        }
    }
}

/// Run-length encodes code lengths as section 3.2.7 has it, the longest runs first.
fn run_lengths(lengths: &[u8]) -> Vec<(u8, u32, u32)> {
    let mut symbols = Vec::new();
    for run in lengths.chunk_by(|a, b| a == b) {
        let mut left = run.len();
        if run[0] == 0 {
            while left >= 11 {
                let count = left.min(138);
                symbols.push((18, count as u32 - 11, 7));
                left -= count;
            }
            if left >= 3 {
                symbols.push((17, left as u32 - 3, 3));
                left = 0;
            }
        } else {
            symbols.push((run[0], 0, 0));
            left -= 1;
            while left >= 3 {
                let count = left.min(6);
                symbols.push((16, count as u32 - 3, 2));
                left -= count;
            }
        }
        symbols.extend(std::iter::repeat_n((run[0], 0, 0), left));
    }
    symbols
}

/// Whether storing the input is worth it for blocks that are dynamic or stored.
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

    /// Where bytes go.
    pub(super) fn out(&mut self) -> &mut W {
        self.bits.out()
    }

    /// Writes tokens in the smallest way. `input` is what they stand for; without it the block is
    /// never stored.
    pub(super) fn smallest(&mut self, tokens: &[Token], input: Option<&[u8]>) -> io::Result<()> {
        let input = input.filter(|input| input.len() <= LARGEST_STORED);
        let (literals, distances) = self.count(tokens);
        let literal_codes = huffman::codes(&self.literals, LONGEST_CODE);
        let distance_codes = huffman::codes(&self.distances, LONGEST_CODE);
        let header = Header::new(&literal_codes[..literals], &distance_codes[..distances]);
        // The extra bits of lengths and distances cost the same in either code: they only matter
        // against a stored block.
        let extra = if input.is_some() {
            self.extra_bits()
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
                self.header(&header);
                self.bits.tokens(tokens, &literal_codes, &distance_codes);
            }
            _ => {
                self.bits.put(0b010, 3);
                self.bits.tokens(tokens, &FIXED.0, &FIXED.1);
            }
        }
        self.bits.drain()
    }

    /// Writes tokens in codes of their own, unless that hardly makes the input smaller.
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
        self.header(&header);
        self.bits.tokens(tokens, &literal_codes, &distance_codes);
        self.bits.drain()
    }

    /// Writes bytes as literals only, unless that hardly makes them smaller.
    pub(super) fn literals_only(&mut self, input: &[u8]) -> io::Result<()> {
        self.literals.fill(0);
        for byte in input {
            self.literals[usize::from(*byte)] += 1;
        }
        self.literals[END_OF_BLOCK] = 1;
        let codes = huffman::codes(&self.literals, LONGEST_CODE);
        let no_distance = [Code { bits: 0, length: 1 }];
        let header = Header::new(&codes[..=END_OF_BLOCK], &no_distance);
        // One bit more than is written: the one distance that a header must have counts as used.
        let size = header.cost + cost(&codes, &self.literals) + 1;
        if hardly_smaller(input, size) {
            return self.stored(input);
        }
        self.header(&header);
        for byte in input {
            self.bits.code(codes[usize::from(*byte)]);
        }
        self.bits.code(codes[END_OF_BLOCK]);
        self.bits.drain()
    }

    /// Writes bytes as they are: at most [`LARGEST_STORED`].
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

    /// Counts symbols, and tells how many codes of either kind a header must list.
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
            // A header must list one distance, if none is used too.
            self.distances[0] = 1;
            1
        });
        (used(&self.literals).unwrap_or(FIRST_LENGTH), distances)
    }

    fn extra_bits(&self) -> u64 {
        // The codes 257 to 264 have none, then four each have one bit more; 285 has none again.
        let lengths = self.literals[FIRST_LENGTH + 8..FIRST_LENGTH + 28].iter();
        let distances = self.distances[4..].iter();
        let lengths: u64 = (0..)
            .zip(lengths)
            .map(|(i, f)| (i / 4 + 1) * u64::from(*f))
            .sum();
        let distances: u64 = (0..)
            .zip(distances)
            .map(|(i, f)| (i / 2 + 1) * u64::from(*f))
            .sum();
        lengths + distances
    }

    fn header(&mut self, header: &Header) {
        self.bits.put(0b100, 3);
        self.bits.put(header.literals as u32 - 257, 5);
        self.bits.put(header.distances as u32 - 1, 5);
        self.bits
            .lengths(header.listed, &header.codes, &header.symbols);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_come_first() {
        let mut lengths = vec![0; 150];
        lengths.extend([5; 9]);
        assert_eq!(
            run_lengths(&lengths),
            [
                (18, 127, 7),
                (18, 1, 7),
                (5, 0, 0),
                (16, 3, 2),
                (5, 0, 0),
                (5, 0, 0)
            ]
        );
    }
}

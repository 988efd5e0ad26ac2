//! Decides when a block ends and how it is written.

use std::io::{self, Write};

use super::Kind;
use super::trees::Tree;
use crate::bits::BitWriter;
use crate::symbols::{
    Code, DISTANCES, END_OF_BLOCK, FIRST_LENGTH, FIXED, HEADER_ORDER, LITERALS, LONGEST_CODE,
    Token, cost, distance_code, length_code,
};

/// Number of tokens after which GNU gzip checks whether it ends a block early.
const LOOK: usize = 1 << 12;

/// Collects tokens and writes them in blocks.
pub(super) struct Blocks<W> {
    bits: BitWriter<W>,
    tokens: Vec<Token>,
    matches: usize,
    literals: [u32; LITERALS],
    distances: [u32; DISTANCES],
    capacity: usize,
    /// Whether a block may end early if it compresses well (GNU gzip).
    early: bool,
}

/// Run-length encoded code lengths: symbol, value of its extra bits and their number.
type RunLengths = Vec<(u8, u32, u32)>;

impl<W: Write> Blocks<W> {
    pub(super) fn new(out: W, kind: Kind, level: u8) -> Self {
        let capacity = match kind {
            Kind::Zlib => (1 << 14) - 1,
            Kind::Gnu => (1 << 15) - 1,
        };
        let mut blocks = Self {
            bits: BitWriter::new(out),
            tokens: Vec::with_capacity(capacity),
            matches: 0,
            literals: [0; LITERALS],
            distances: [0; DISTANCES],
            capacity,
            early: kind == Kind::Gnu && level > 2,
        };
        blocks.literals[END_OF_BLOCK] = 1;
        blocks
    }

    /// Returns the writer that receives the output.
    pub(super) fn out(&mut self) -> &mut W {
        self.bits.out()
    }

    /// Adds a literal. Returns whether the block must end. `bytes` is the number of content
    /// bytes of the block so far, as its encoder counts them.
    #[inline]
    pub(super) fn literal(&mut self, byte: u8, bytes: usize) -> bool {
        self.literals[usize::from(byte)] += 1;
        self.tokens.push(Token::literal(byte));
        self.must_end(bytes)
    }

    /// Adds a match. Returns whether the block must end.
    #[inline]
    pub(super) fn matched(&mut self, length: usize, distance: usize, bytes: usize) -> bool {
        self.literals[FIRST_LENGTH + length_code(length as u32 - 3).0] += 1;
        self.distances[distance_code(distance as u32 - 1).0] += 1;
        self.tokens.push(Token::matched(length, distance));
        self.matches += 1;
        self.must_end(bytes)
    }

    #[inline]
    fn must_end(&self, bytes: usize) -> bool {
        let count = self.tokens.len();
        count == self.capacity
            || (self.early && count.is_multiple_of(LOOK) && self.compresses_well(bytes))
    }

    /// Returns whether few matches save at least half, by an upper bound of the block's size.
    fn compresses_well(&self, bytes: usize) -> bool {
        let count = self.tokens.len();
        let bits: u64 = (0u32..)
            .zip(&self.distances)
            .map(|(code, frequency)| {
                let extra = (code / 2).saturating_sub(1);
                u64::from(*frequency) * u64::from(5 + extra)
            })
            .sum();
        let bound = (count as u64 * 8 + bits) / 8;
        self.matches < count / 2 && bound < bytes as u64 / 2
    }

    /// Writes the block. `input` is its content, if it is still known; `length` is the length of
    /// the content in bytes.
    pub(super) fn end(
        &mut self,
        input: Option<&[u8]>,
        length: usize,
        last: bool,
    ) -> io::Result<()> {
        let literals = Tree::new(&self.literals, LONGEST_CODE);
        let distances = Tree::new(&self.distances, LONGEST_CODE);
        let header = Header::new(&literals, &distances);
        let extra = self.extra_bits();
        let both = |literals: &[Code], distances: &[Code]| {
            extra + cost(literals, &self.literals) + cost(distances, &self.distances)
        };
        // In whole bytes, with the three bits of the block's header.
        let bytes = |bits: u64| (bits + 3).div_ceil(8);
        let dynamic = bytes(header.cost + both(&literals.codes, &distances.codes));
        let fixed = bytes(both(&FIXED.0, &FIXED.1));
        match input {
            Some(input) if length as u64 + 4 <= dynamic.min(fixed) => self.stored(input, last),
            _ if fixed <= dynamic => {
                self.bits.put(0b010 | u32::from(last), 3);
                self.bits.tokens(&self.tokens, &FIXED.0, &FIXED.1);
            }
            _ => {
                self.bits.put(0b100 | u32::from(last), 3);
                self.header(&header, literals.last, distances.last);
                self.bits
                    .tokens(&self.tokens, &literals.codes, &distances.codes);
            }
        }
        self.tokens.clear();
        self.matches = 0;
        self.literals.fill(0);
        self.literals[END_OF_BLOCK] = 1;
        self.distances.fill(0);
        self.bits.drain()
    }

    pub(super) fn finish(self) -> io::Result<W> {
        self.bits.finish()
    }

    fn stored(&mut self, input: &[u8], last: bool) {
        self.bits.put(last.into(), 3);
        self.bits.align();
        let length = input.len() as u16;
        self.bits.put(length.into(), 16);
        self.bits.put((!length).into(), 16);
        self.bits.bytes(input);
    }

    fn extra_bits(&self) -> u64 {
        self.tokens
            .iter()
            .filter_map(|token| token.split().err())
            .map(|(length, distance)| {
                u64::from(length_code(length).1) + u64::from(distance_code(distance).1)
            })
            .sum()
    }

    fn header(&mut self, header: &Header, last_literal: usize, last_distance: usize) {
        self.bits.put(last_literal as u32 - 256, 5);
        self.bits.put(last_distance as u32, 5);
        self.bits
            .lengths(header.listed, &header.tree.codes, &header.symbols);
    }
}

/// The code lengths of a dynamic block and the code that encodes them.
struct Header {
    symbols: RunLengths,
    tree: Tree,
    listed: usize,
    /// Size in bits without the three bits of the block's header.
    cost: u64,
}

impl Header {
    fn new(literals: &Tree, distances: &Tree) -> Self {
        let mut symbols = run_lengths(&literals.codes[..=literals.last]);
        symbols.extend(run_lengths(&distances.codes[..=distances.last]));
        let mut frequencies = [0u32; 19];
        for (symbol, ..) in &symbols {
            frequencies[usize::from(*symbol)] += 1;
        }
        let tree = Tree::new(&frequencies, 7);
        let coded = |place: &usize| tree.codes[HEADER_ORDER[*place]].length != 0;
        let listed = (4..19).rev().find(coded).map_or(4, |last| last + 1);
        let extra: u64 = symbols.iter().map(|(_, _, bits)| u64::from(*bits)).sum();
        Self {
            cost: 5 + 5 + 4 + 3 * listed as u64 + cost(&tree.codes, &frequencies) + extra,
            symbols,
            tree,
            listed,
        }
    }
}

/// Run-length encodes code lengths (RFC 1951, section 3.2.7) as zlib does: zeros in runs of up to
/// 138; others in runs of up to 7 that start with the length itself, then in runs of up to 6.
fn run_lengths(codes: &[Code]) -> RunLengths {
    let mut symbols = RunLengths::new();
    for run in codes.chunk_by(|a, b| a.length == b.length) {
        let length = run[0].length;
        let mut left = run.len();
        let mut begun = false;
        while left > 0 {
            let (least, most) = match (length, begun) {
                (0, _) => (3, 138),
                (_, false) => (4, 7),
                (_, true) => (3, 6),
            };
            let count = left.min(most);
            left -= count;
            if count < least {
                symbols.extend(std::iter::repeat_n((length, 0, 0), count));
            } else if length != 0 {
                let repeated = if begun { count } else { count - 1 };
                if !begun {
                    symbols.push((length, 0, 0));
                }
                symbols.push((16, repeated as u32 - 3, 2));
            } else if count <= 10 {
                symbols.push((17, count as u32 - 3, 3));
            } else {
                symbols.push((18, count as u32 - 11, 7));
            }
            begun = true;
        }
    }
    symbols
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_cut_as_zlib_cuts_them() {
        let runs = |length: u8, count: usize| {
            let code = Code { bits: 0, length };
            run_lengths(&vec![code; count])
        };
        assert_eq!(runs(0, 140), [(18, 127, 7), (0, 0, 0), (0, 0, 0)]);
        assert_eq!(runs(0, 10), [(17, 7, 3)]);
        assert_eq!(runs(4, 3), [(4, 0, 0); 3]);
        assert_eq!(runs(4, 4), [(4, 0, 0), (16, 0, 2)]);
        assert_eq!(
            runs(4, 12),
            [(4, 0, 0), (16, 3, 2), (16, 2, 2)],
            "one, six more, five more"
        );
        assert_eq!(runs(4, 9), [(4, 0, 0), (16, 3, 2), (4, 0, 0), (4, 0, 0)]);
    }
}

//! Writes blocks, and decides when a block continues with the codes of the one before.
//!
//! A block with dynamic codes is left open. If its codes suit the next tokens, these continue the
//! block. klauspost/compress estimates whether they do, without building the new codes.

use std::io::{self, Write};

use super::tokens::Tokens;
use crate::bits::BitWriter;
use crate::dynamic::Header;
use crate::huffman;
use crate::symbols::{
    Code, DISTANCES, END_OF_BLOCK, FIRST_LENGTH, FIXED, LARGEST_STORED, LITERALS, LONGEST_CODE,
    cost, extra_bits,
};

/// Number of tokens from which on fixed codes are not considered.
const NOT_FIXED: usize = 250;
/// Estimated size, in bits, of a header for literals.
const GUESSED_HEADER: u64 = 70 * 8;
/// Input of fewer bytes is not tested for noise.
const NOISE: usize = 1024;

/// Writes blocks.
pub(super) struct Blocks<W> {
    bits: BitWriter<W>,
    /// Whether headers list all symbols, used or not.
    filled: bool,
    /// New codes count as larger than they are, by one part in two to this power.
    penalty: u32,
    literals: Vec<Code>,
    distances: Vec<Code>,
    /// Size of the open block's header in bits.
    open: Option<u64>,
    /// Whether the open block has codes for literals only.
    literals_only: bool,
}

impl<W: Write> Blocks<W> {
    pub(super) fn new(out: W, filled: bool, penalty: u32) -> Self {
        Self {
            bits: BitWriter::new(out),
            filled,
            penalty,
            literals: vec![Code::default(); LITERALS],
            distances: vec![Code::default(); DISTANCES],
            open: None,
            literals_only: false,
        }
    }

    /// Returns the writer that receives the output.
    pub(super) fn out(&mut self) -> &mut W {
        self.bits.out()
    }

    /// Writes a stored block of at most [`LARGEST_STORED`] bytes.
    pub(super) fn stored(&mut self, input: &[u8]) -> io::Result<()> {
        self.end();
        self.bits.put(0, 3);
        self.bits.align();
        let length = input.len() as u16;
        self.bits.put(length.into(), 16);
        self.bits.put((!length).into(), 16);
        self.bits.bytes(input);
        self.bits.drain()
    }

    /// Continues to the next whole byte with an empty stored block.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.stored(&[])
    }

    /// Ends the stream with an empty fixed block.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.end();
        self.bits.put(0b011, 3);
        self.bits.code(FIXED.0[END_OF_BLOCK]);
        self.bits.finish()
    }

    /// Ends the open block, if there is one.
    fn end(&mut self) {
        if self.open.take().is_some() {
            self.bits.code(self.literals[END_OF_BLOCK]);
        }
    }

    /// Writes tokens. `input` is the content that they stand for, if it is known and may be
    /// stored instead. `last`: the block does not stay open.
    pub(super) fn tokens(
        &mut self,
        tokens: &Tokens,
        input: Option<&[u8]>,
        last: bool,
    ) -> io::Result<()> {
        if self.open.is_some() && (self.literals_only || !self.suit(tokens)) {
            self.end();
            self.literals_only = false;
        }
        let counted = Counted::new(tokens, input, last, self.filled, self.open.is_some());
        let known = match self.open {
            Some(header) => self.again(&counted, header + tokens.estimated_bits(last)),
            None => Choice::New,
        };
        let choice = match known {
            Choice::New => self.renew(counted, last),
            known => known,
        };
        match (choice, input) {
            (Choice::Stored, Some(input)) => return self.stored(input),
            (Choice::Fixed, _) => {
                self.end();
                self.bits.put(0b010, 3);
                self.bits.tokens(&tokens.list, &FIXED.0, &FIXED.1);
            }
            _ => {
                self.bits
                    .open_tokens(&tokens.list, &self.literals, &self.distances);
                if last {
                    self.bits.code(self.literals[END_OF_BLOCK]);
                    self.open = None;
                }
            }
        }
        self.bits.drain()
    }

    /// Returns whether the open block has a code for every token.
    fn suit(&self, tokens: &Tokens) -> bool {
        let suit = |codes: &[Code], frequencies: &[u32]| {
            let mut pairs = codes.iter().zip(frequencies);
            pairs.all(|(code, frequency)| *frequency == 0 || code.length != 0)
        };
        suit(&self.literals, &tokens.literals) && suit(&self.distances, &tokens.distances)
    }

    /// Decides how to write tokens that the open block's codes suit. `estimate` is their
    /// estimated size, in bits, in a new block.
    fn again(&mut self, counted: &Counted, estimated: u64) -> Choice {
        let end = u64::from(self.literals[END_OF_BLOCK].length);
        let renewed = estimated + end + (estimated >> self.penalty);
        let kept = counted.cost(&self.literals, &self.distances) + counted.extra;
        let size = renewed.min(kept);
        if renewed < kept {
            self.end();
        }
        if counted.few && counted.fixed() + 7 < size {
            return match counted.stored {
                Some(stored) if stored <= size => Choice::Stored,
                _ => Choice::Fixed,
            };
        }
        match counted.stored {
            Some(stored) if stored <= size => Choice::Stored,
            _ if renewed < kept => Choice::New,
            _ => Choice::Again,
        }
    }

    /// Builds codes for tokens and starts a block with them, if they are worth it.
    fn renew(&mut self, mut counted: Counted, last: bool) -> Choice {
        counted.literals[END_OF_BLOCK] = 1;
        self.literals = huffman::codes(&counted.literals, LONGEST_CODE);
        self.distances = huffman::codes(&counted.distances, LONGEST_CODE);
        let header = Header::new(
            &self.literals[..counted.listed.0],
            &self.distances[..counted.listed.1],
        );
        // If the input is not known, neither side counts extra bits.
        let size = header.cost + counted.cost(&self.literals, &self.distances) + counted.extra;
        let fixed = counted.fixed();
        if counted.few && fixed <= size {
            return match counted.stored {
                Some(stored) if stored <= fixed => Choice::Stored,
                _ => Choice::Fixed,
            };
        }
        if counted.stored.is_some_and(|stored| stored <= size) {
            return Choice::Stored;
        }
        header.write(&mut self.bits);
        self.open = Some(header.cost).filter(|_| !last);
        self.literals_only = false;
        Choice::Again
    }

    /// Writes at most [`LARGEST_STORED`] bytes as literals only, unless a stored block is about
    /// as small.
    pub(super) fn literals_only(&mut self, input: &[u8], last: bool) -> io::Result<()> {
        let mut frequencies = [0u32; END_OF_BLOCK + 1];
        for byte in input {
            frequencies[usize::from(*byte)] += 1;
        }
        if input.len() > NOISE && is_noise(&frequencies[..256], input.len()) {
            return self.stored(input);
        }
        frequencies[END_OF_BLOCK] = 1;
        let codes = huffman::codes(&frequencies, LONGEST_CODE);
        let size = cost(&codes, &frequencies) + self.open.unwrap_or(GUESSED_HEADER);
        let size = size + (size >> self.penalty);
        if stored_bits(input) <= size {
            return self.stored(input);
        }
        frequencies[END_OF_BLOCK] = 0;
        let codable = |(code, frequency): (&Code, &u32)| *frequency == 0 || code.length != 0;
        let suit = self.literals.iter().zip(&frequencies).all(codable);
        if !suit || size < cost(&self.literals, &frequencies) {
            self.end();
        }
        if self.open.is_none() {
            self.literals = codes;
            self.literals.resize(LITERALS, Code::default());
            let no_distance = [Code { bits: 0, length: 1 }];
            let header = Header::new(&self.literals[..=END_OF_BLOCK], &no_distance);
            header.write(&mut self.bits);
            self.open = Some(header.cost);
            self.literals_only = true;
        }
        self.bits.literals(input, &self.literals);
        if last {
            self.end();
            self.literals_only = false;
        }
        self.bits.drain()
    }
}

/// How tokens are written.
enum Choice {
    Stored,
    Fixed,
    /// In a new block.
    New,
    /// They continue the open block.
    Again,
}

fn stored_bits(input: &[u8]) -> u64 {
    (input.len() as u64 + 5) * 8
}

/// Returns whether all bytes are about equally frequent.
fn is_noise(frequencies: &[u32], length: usize) -> bool {
    let average = length as f64 / 256.0;
    let squares = frequencies.iter().map(|frequency| {
        let off = f64::from(*frequency) - average;
        off * off
    });
    // The sums that occur are far from values that rounding could change.
    squares.sum::<f64>() < (2 * length) as f64
}

/// The symbols of a block.
struct Counted {
    literals: [u32; LITERALS],
    distances: [u32; DISTANCES],
    /// How many codes of literals and distances a header lists.
    listed: (usize, usize),
    /// Number of extra bits, if they matter.
    extra: u64,
    /// Size of a stored block in bits, if a stored block is allowed.
    stored: Option<u64>,
    /// Whether there are few enough tokens for the fixed codes.
    few: bool,
}

impl Counted {
    fn new(tokens: &Tokens, input: Option<&[u8]>, last: bool, filled: bool, open: bool) -> Self {
        let filled = filled && !last;
        let mut literals = tokens.literals;
        let mut distances = tokens.distances;
        literals[END_OF_BLOCK] = u32::from(!filled);
        let used = |frequencies: &[u32]| frequencies.iter().rposition(|f| *f > 0).map(|p| p + 1);
        let listed = if filled {
            (LITERALS, DISTANCES)
        } else {
            let distances = used(&distances).unwrap_or_else(|| {
                // A header lists at least one distance code, even if no distance is
                // used.
                distances[0] = 1;
                1
            });
            (used(&literals).unwrap_or(FIRST_LENGTH), distances)
        };
        let stored = input
            .filter(|input| input.len() <= LARGEST_STORED)
            .map(stored_bits);
        let extra = if stored.is_some() || open {
            extra_bits(&literals, &distances)
        } else {
            0
        };
        Self {
            literals,
            distances,
            listed,
            extra,
            stored,
            few: tokens.list.len() + usize::from(last) < NOT_FIXED,
        }
    }

    fn cost(&self, literals: &[Code], distances: &[Code]) -> u64 {
        cost(literals, &self.literals) + cost(distances, &self.distances)
    }

    fn fixed(&self) -> u64 {
        3 + self.cost(&FIXED.0, &FIXED.1) + self.extra
    }
}

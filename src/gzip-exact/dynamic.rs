//! The header of a dynamic block (RFC 1951, section 3.2.7), run-length encoded as in all of Go's
//! encoders.

use std::io::Write;

use crate::bits::BitWriter;
use crate::huffman;
use crate::symbols::{Code, HEADER_ORDER, cost};

/// The run-length encoded lengths of a dynamic block's codes, and the code that encodes them.
pub(super) struct Header {
    /// Symbol, value of its extra bits and their number.
    symbols: Vec<(u8, u32, u32)>,
    codes: Vec<Code>,
    /// How many of [`HEADER_ORDER`] are listed.
    listed: usize,
    /// Size of the whole header in bits, with the three bits of the block's header.
    pub(super) cost: u64,
    literals: usize,
    distances: usize,
}

impl Header {
    pub(super) fn new(literals: &[Code], distances: &[Code]) -> Self {
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

    /// Writes the header of a block that is not the last one.
    pub(super) fn write<W: Write>(&self, bits: &mut BitWriter<W>) {
        bits.put(0b100, 3);
        bits.put(self.literals as u32 - 257, 5);
        bits.put(self.distances as u32 - 1, 5);
        bits.lengths(self.listed, &self.codes, &self.symbols);
    }
}

/// Run-length encodes code lengths (section 3.2.7), with runs as long as possible.
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

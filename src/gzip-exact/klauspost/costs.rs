//! The estimated cost of literals, from their frequency in the bytes ahead. Level 9 uses the match
//! that saves most bits.

use super::chains::WINDOW;
use super::lazy::{BLOCK_TOKENS, Differences};
use crate::huffman;
use crate::symbols::{LONGEST_CODE, distance_code, length_code};

/// A match must save more bits than this.
pub(super) const LEAST_GAIN: i64 = 4;
/// Cost of a match in bits, without its extra bits.
const MATCH: u32 = 3;

/// Costs of literals in bits.
pub(super) struct Costs {
    differences: Differences,
    /// Sum of the costs of all literals before each position, from the position of the last
    /// count.
    before: Vec<u32>,
}

impl Costs {
    pub(super) fn new(differences: Differences) -> Self {
        Self {
            differences,
            before: vec![0; 2 * WINDOW + 1],
        }
    }

    /// Counts the bytes after a position.
    pub(super) fn count(&mut self, position: usize, ahead: &[u8]) {
        let counted = if self.differences.all_ahead {
            ahead
        } else {
            &ahead[..ahead.len().min(BLOCK_TOKENS)]
        };
        // klauspost counts in 16 bits: two windows of one byte count as none.
        let mut frequencies = [0u16; 256];
        for byte in counted {
            let frequency = &mut frequencies[usize::from(*byte)];
            *frequency = frequency.wrapping_add(1);
        }
        let codes = huffman::codes(&frequencies.map(u32::from), LONGEST_CODE);
        let mut sum = 0;
        self.before[position] = sum;
        for (before, byte) in self.before[position + 1..].iter_mut().zip(ahead) {
            let length = codes[usize::from(*byte)].length;
            sum += u32::from(length.max(self.differences.least_cost));
            *before = sum;
        }
    }

    /// Returns how many bits a match at a position saves.
    #[inline]
    pub(super) fn saved(&self, position: usize, length: usize, distance: usize) -> i64 {
        let literals = self.before[position + length] - self.before[position];
        // klauspost counts a distance as one greater than it is; the greatest one has index
        // 128.
        let counted = match distance {
            WINDOW => 128,
            _ => distance as u32,
        };
        let extra = distance_code(counted).1 + length_code(length as u32 - 3).1;
        i64::from(literals) - i64::from(MATCH + extra)
    }
}

//! What literals will cost, estimated by how frequent they are ahead: level 9 takes the match that
//! saves most.

use super::chains::WINDOW;
use super::lazy::{BLOCK_TOKENS, Habits};
use crate::huffman;
use crate::symbols::{LONGEST_CODE, distance_code, length_code};

/// A match must save more bits than this.
pub(super) const LEAST_GAIN: i64 = 4;
/// What a match costs besides its extra bits.
const MATCH: u32 = 3;

/// Costs of literals in bits.
pub(super) struct Costs {
    habits: Habits,
    /// Of all literals before each position, from where they were last counted.
    before: Vec<u32>,
}

impl Costs {
    pub(super) fn new(habits: Habits) -> Self {
        Self {
            habits,
            before: vec![0; 2 * WINDOW + 1],
        }
    }

    /// Counts what lies ahead of a position.
    pub(super) fn count(&mut self, position: usize, ahead: &[u8]) {
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
        self.before[position] = sum;
        for (before, byte) in self.before[position + 1..].iter_mut().zip(ahead) {
            let length = codes[usize::from(*byte)].length;
            sum += u32::from(length.max(self.habits.least_cost));
            *before = sum;
        }
    }

    /// Bits that a match at a position saves.
    #[inline]
    pub(super) fn saved(&self, position: usize, length: usize, distance: usize) -> i64 {
        let literals = self.before[position + length] - self.before[position];
        // Distances count as one longer than they are; the farthest, then, as 128.
        let counted = match distance {
            WINDOW => 128,
            _ => distance as u32,
        };
        let extra = distance_code(counted).1 + length_code(length as u32 - 3).1;
        i64::from(literals) - i64::from(MATCH + extra)
    }
}

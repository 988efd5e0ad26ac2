//! A move-to-front list of recent call targets.
//!
//! A call to a function in the list is replaced by the index of the function. Programs with common code call
//! their functions in the same order, although the functions have other addresses; their indices are equal.

use super::progress::Direction;

/// Number of targets in the list.
const LENGTH: u32 = 256;

/// Replaces operands of `BITS` bits, relative to the next instruction, by words: an index in the list, or the
/// operand with its highest bit inverted.
///
/// The conversion is a bijection. The operands whose words are below the length of the list belong to no
/// call within a program. They get the words that the operands of the listed targets do not use.
#[derive(Debug)]
pub struct RecentTargets<const BITS: u32> {
    /// Offsets of functions, each once, the most recent one first.
    targets: Vec<u32>,
}

impl<const BITS: u32> RecentTargets<BITS> {
    const MASK: u32 = u32::MAX >> (32 - BITS);
    /// The operand whose word is 0. It is greater than every distance below the limit.
    const FARTHEST: u32 = 1 << (BITS - 1);
    /// Only calls from and to offsets below this limit are converted, so that no operand between two of them
    /// is one of the first values from [`Self::FARTHEST`] on.
    const LIMIT: u32 = Self::FARTHEST - LENGTH;

    /// Creates a list of offsets that are not functions; the first calls replace them.
    pub fn new() -> Self {
        Self {
            targets: (0..LENGTH).collect(),
        }
    }

    /// Converts the operand of a call, or its word, whose next instruction is at `next`.
    pub fn convert(&mut self, word: u32, next: u32, direction: Direction) -> u32 {
        if next >= Self::LIMIT {
            return word;
        }
        match direction {
            Direction::Encode => self.encode(word, next),
            Direction::Decode => self.decode(word, next),
        }
    }

    fn encode(&mut self, distance: u32, next: u32) -> u32 {
        let target = distance.wrapping_add(next) & Self::MASK;
        if let Some(index) = self.find(target) {
            self.move_to_front(index, target);
            return index as u32;
        }
        let word = distance ^ Self::FARTHEST;
        match self.targets.get(word as usize) {
            Some(known) => (known.wrapping_sub(next) & Self::MASK) ^ Self::FARTHEST,
            None => {
                self.insert(target);
                word
            }
        }
    }

    fn decode(&mut self, word: u32, next: u32) -> u32 {
        if let Some(target) = self.targets.get(word as usize).copied() {
            self.move_to_front(word as usize, target);
            return target.wrapping_sub(next) & Self::MASK;
        }
        let distance = word ^ Self::FARTHEST;
        let target = distance.wrapping_add(next) & Self::MASK;
        match self.find(target) {
            Some(index) => index as u32 ^ Self::FARTHEST,
            None => {
                self.insert(target);
                distance
            }
        }
    }

    fn find(&self, target: u32) -> Option<usize> {
        self.targets.iter().position(|known| *known == target)
    }

    /// Moves a target of the list to the front.
    fn move_to_front(&mut self, index: usize, target: u32) {
        self.targets.copy_within(..index, 1);
        self.targets[0] = target;
    }

    /// Inserts a target at the front and removes the last one.
    fn insert(&mut self, target: u32) {
        if target < Self::LIMIT {
            self.move_to_front(LENGTH as usize - 1, target);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also converts operands that no compiler writes.
    fn round_trips<const BITS: u32>() {
        let (mut encoder, mut decoder) =
            (RecentTargets::<BITS>::new(), RecentTargets::<BITS>::new());
        let (mask, farthest, limit) = (
            RecentTargets::<BITS>::MASK,
            RecentTargets::<BITS>::FARTHEST,
            RecentTargets::<BITS>::LIMIT,
        );
        let mut dice = 7u64;
        let mut roll = |limit: u32| {
            dice = dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (dice >> 33) as u32 % limit
        };
        let mut listed = 0;
        for _ in 0..200_000 {
            let next = match roll(20) {
                0 => limit - 1 - roll(3),
                1 => limit + roll(300),
                _ => roll(5000),
            };
            let distance = match roll(6) {
                0 => farthest.wrapping_add(roll(300)),
                1 => roll(300),
                2 => roll(farthest) * 2,
                _ => (roll(40) * 100).wrapping_sub(next),
            } & mask;
            let word = encoder.convert(distance, next, Direction::Encode);
            listed += usize::from(word < LENGTH);
            assert_eq!(word & mask, word);
            assert_eq!(decoder.convert(word, next, Direction::Decode), distance);
            assert_eq!(encoder.targets, decoder.targets);
        }
        assert!(listed > 80_000, "{listed}");
    }

    #[test]
    fn every_operand_round_trips() {
        round_trips::<32>();
        round_trips::<26>();
    }

    #[test]
    fn equal_order_of_calls_gives_equal_indices() {
        let indices = |functions: [u32; 4], next: u32| {
            let mut recent = RecentTargets::<32>::new();
            let mut index = |target: u32, next: u32| {
                recent.convert(target.wrapping_sub(next), next, Direction::Encode)
            };
            for target in functions {
                index(target, next);
            }
            [3, 1, 1, 2, 0].map(|at: usize| index(functions[at], next + 64))
        };
        let one = indices([5000, 70_000, 900, 123_456], 40_000);
        assert_eq!(one, [0, 2, 0, 2, 3]);
        assert_eq!(one, indices([7777, 80_000, 1000, 654_321], 9000));
    }
}

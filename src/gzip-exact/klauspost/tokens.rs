//! The tokens of a block and the frequencies of their symbols.

use crate::symbols::{
    DISTANCES, FIRST_LENGTH, LARGEST_STORED, LITERALS, Token, distance_code, extra_bits,
    length_code,
};

const LONGEST: usize = 258;
const SHORTEST: usize = 3;

/// Tokens, and how often each symbol occurs in them, without the end of the block.
pub(super) struct Tokens {
    pub(super) list: Vec<Token>,
    pub(super) literals: [u32; LITERALS],
    pub(super) distances: [u32; DISTANCES],
}

impl Tokens {
    pub(super) fn new() -> Self {
        Self {
            list: Vec::with_capacity(LARGEST_STORED),
            literals: [0; LITERALS],
            distances: [0; DISTANCES],
        }
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.literals.fill(0);
        self.distances.fill(0);
    }

    #[inline]
    pub(super) fn literal(&mut self, byte: u8) {
        self.literals[usize::from(byte)] += 1;
        self.list.push(Token::literal(byte));
    }

    #[inline]
    pub(super) fn literals(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.literals[usize::from(*byte)] += 1;
        }
        self.list
            .extend(bytes.iter().map(|byte| Token::literal(*byte)));
    }

    /// Adds a match of any length; one that is too long becomes several.
    #[inline]
    pub(super) fn matched(&mut self, length: usize, distance: usize) {
        let mut left = length;
        while left > 0 {
            // The remainder must be long enough for a match, too.
            let part = match left {
                ..=LONGEST => left,
                _ if left > LONGEST + SHORTEST => LONGEST,
                _ => LONGEST - SHORTEST,
            };
            left -= part;
            self.literals[FIRST_LENGTH + length_code(part as u32 - 3).0] += 1;
            self.distances[distance_code(distance as u32 - 1).0] += 1;
            self.list.push(Token::matched(part, distance));
        }
    }

    /// Estimates the minimum size of the tokens in dynamic codes, in bits: each symbol by its
    /// share, at least one bit and at most 15. Rounds where klauspost/compress rounds, so that
    /// the result is the same. `ended`: the end of the block is one of the tokens.
    pub(super) fn estimated_bits(&self, ended: bool) -> u64 {
        const END: f32 = 15.0;
        fn add(sum: &mut f32, frequency: u32, share: f32) {
            let frequency = frequency as f32;
            *sum += (-log2(frequency * share)).clamp(1.0, 15.0) * frequency;
        }
        let used = |frequency: &&u32| **frequency > 0;
        let mut sum = 0.0;
        let count = self.list.len() + usize::from(ended);
        if count > 0 {
            let share = 1.0 / count as f32;
            for frequency in self.literals[..256].iter().filter(used) {
                add(&mut sum, *frequency, share);
            }
            sum += END;
            for frequency in self.literals[FIRST_LENGTH..].iter().filter(used) {
                add(&mut sum, *frequency, share);
            }
        }
        let matches: u32 = self.literals[FIRST_LENGTH..].iter().sum();
        if matches > 0 {
            let share = 1.0 / matches as f32;
            for frequency in self.distances.iter().filter(used) {
                add(&mut sum, *frequency, share);
            }
        }
        sum as u64 + extra_bits(&self.literals, &self.distances)
    }
}

/// Approximates the binary logarithm: the exponent, and a parabola for the rest.
fn log2(value: f32) -> f32 {
    let bits = value.to_bits();
    let exponent = ((bits >> 23) & 255) as i32 - 128;
    let rest = f32::from_bits((bits & 0x807f_ffff) + (127 << 23));
    exponent as f32 + (((-0.344_848_43 * rest + 2.024_665_8) * rest) - 0.674_877_6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_matches_leave_nothing_too_short_over() {
        let lengths = |length: usize| -> Vec<u32> {
            let mut tokens = Tokens::new();
            tokens.matched(length, 1);
            let split = tokens.list.iter().filter_map(|token| token.split().err());
            split.map(|(less_3, _)| less_3 + 3).collect()
        };
        assert_eq!(lengths(258), [258]);
        assert_eq!(lengths(259), [255, 4]);
        assert_eq!(lengths(261), [255, 6]);
        assert_eq!(lengths(262), [258, 4]);
        assert_eq!(lengths(1000), [258, 258, 258, 226]);
    }

    #[test]
    fn the_logarithm_is_nearly_right() {
        for value in [0.001f32, 0.1, 0.5, 0.75, 1.0, 3.0, 1000.0] {
            assert!((log2(value) - value.log2()).abs() < 0.01, "{value}");
        }
    }
}

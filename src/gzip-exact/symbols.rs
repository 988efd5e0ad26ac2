//! The common parts of all deflate encoders (RFC 1951): symbols, their codes and extra bits.

use std::sync::LazyLock;

/// Maximum size of a stored block in bytes.
pub(super) const LARGEST_STORED: usize = 65535;

/// Number of symbols: literals, the end of a block, and lengths.
pub(super) const LITERALS: usize = 286;
pub(super) const DISTANCES: usize = 30;
pub(super) const END_OF_BLOCK: usize = 256;
pub(super) const FIRST_LENGTH: usize = 257;
/// Maximum length, in bits, of the code of a literal or a distance (section 3.2.7).
pub(super) const LONGEST_CODE: usize = 15;
/// The order in which the header of a dynamic block lists the lengths of its own code.
pub(super) const HEADER_ORDER: [usize; 19] = [
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
];

/// A literal byte or a match.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token(u32);

const MATCH: u32 = 1 << 31;

impl Token {
    pub(super) fn literal(byte: u8) -> Self {
        Self(byte.into())
    }

    /// Creates a match of 3 to 258 bytes at a distance of 1 to 32768 bytes.
    pub(super) fn matched(length: usize, distance: usize) -> Self {
        Self(MATCH | ((length as u32 - 3) << 16) | (distance as u32 - 1))
    }

    /// Returns the literal, or a match's length less 3 and distance less 1.
    #[inline]
    pub(super) fn split(self) -> Result<usize, (u32, u32)> {
        if self.0 & MATCH == 0 {
            Ok(self.0 as usize)
        } else {
            Err(((self.0 >> 16) & 0xff, self.0 & 0xffff))
        }
    }
}

/// Returns the index of a length's code after [`FIRST_LENGTH`], and the number of its extra bits.
#[inline]
pub(super) fn length_code(less_3: u32) -> (usize, u32) {
    match less_3 {
        0..=7 => (less_3 as usize, 0),
        255 => (28, 0),
        _ => {
            let extra = less_3.ilog2() - 2;
            ((4 * extra + (less_3 >> extra)) as usize, extra)
        }
    }
}

/// Returns the index of a distance's code, and the number of its extra bits.
#[inline]
pub(super) fn distance_code(less_1: u32) -> (usize, u32) {
    if less_1 < 4 {
        return (less_1 as usize, 0);
    }
    let extra = less_1.ilog2() - 1;
    ((2 * extra + (less_1 >> extra)) as usize, extra)
}

/// The codes of fixed blocks (RFC 1951, section 3.2.6).
pub(super) static FIXED: LazyLock<(Vec<Code>, Vec<Code>)> = LazyLock::new(|| {
    let literal = |symbol: u16| {
        let (bits, length) = match symbol {
            0..=143 => (symbol + 0x30, 8),
            144..=255 => (symbol - 144 + 0x190, 9),
            256..=279 => (symbol - 256, 7),
            _ => (symbol - 280 + 0xc0, 8),
        };
        let bits = reversed(bits, length);
        Code { bits, length }
    };
    let distance = |symbol: u16| Code {
        bits: reversed(symbol, 5),
        length: 5,
    };
    (
        (0..LITERALS as u16).map(literal).collect(),
        (0..DISTANCES as u16).map(distance).collect(),
    )
});

/// The bits of a code in the order of output, and their number. No bits: the symbol has no code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Code {
    pub(super) bits: u16,
    pub(super) length: u8,
}

/// The first bit of a code is the lowest one.
pub(super) fn reversed(bits: u16, length: u8) -> u16 {
    bits.reverse_bits() >> (16 - u32::from(length))
}

/// Returns the size in bits of symbols with these frequencies.
pub(super) fn cost(codes: &[Code], frequencies: &[u32]) -> u64 {
    codes
        .iter()
        .zip(frequencies)
        .map(|(code, frequency)| u64::from(code.length) * u64::from(*frequency))
        .sum()
}

/// Returns the number of extra bits of lengths and distances with these frequencies.
pub(super) fn extra_bits(literals: &[u32], distances: &[u32]) -> u64 {
    // The codes 257 to 264 have none, then each group of four has one bit more; 285 has none.
    let lengths = literals[FIRST_LENGTH + 8..FIRST_LENGTH + 28].iter();
    let lengths: u64 = (0..)
        .zip(lengths)
        .map(|(i, f)| (i / 4 + 1) * u64::from(*f))
        .sum();
    let distances: u64 = (0..)
        .zip(&distances[4..])
        .map(|(i, f)| (i / 2 + 1) * u64::from(*f))
        .sum();
    lengths + distances
}

/// Returns how many bytes at the start of `a` and `b` are equal, at most `a.len()`.
#[inline]
pub(super) fn same(a: &[u8], b: &[u8]) -> usize {
    let mut length = 0;
    for (x, y) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        let differs = word(x) ^ word(y);
        if differs != 0 {
            return length + (differs.trailing_zeros() / 8) as usize;
        }
        length += 8;
    }
    let rest = a[length..].iter().zip(&b[length..]);
    length + rest.take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Checks what every decoder requires of codes: they are complete, and none is too long.
    pub(crate) fn assert_complete(make: impl Fn(&[u32], usize) -> Vec<Code>) {
        // Fibonacci numbers make the deepest trees.
        let mut frequencies = vec![1u32, 1];
        for i in 2..30 {
            frequencies.push(frequencies[i - 1] + frequencies[i - 2]);
        }
        for longest in [7, 15] {
            let codes = make(&frequencies, longest);
            let lengths = codes.iter().map(|code| i32::from(code.length));
            let space: f64 = lengths.clone().map(|length| 0.5f64.powi(length)).sum();
            assert!((space - 1.0).abs() < 1e-9, "Kraft's sum is {space}");
            assert!(lengths.max() <= Some(longest as i32));
        }
    }

    #[test]
    fn codes_of_lengths_and_distances_are_those_of_the_rfc() {
        // Section 3.2.5: (length, code, extra bits) at the ends of ranges.
        for (length, code, extra) in [
            (3, 257, 0),
            (10, 264, 0),
            (11, 265, 1),
            (12, 265, 1),
            (13, 266, 1),
            (18, 268, 1),
            (19, 269, 2),
            (34, 272, 2),
            (35, 273, 3),
            (130, 280, 4),
            (131, 281, 5),
            (257, 284, 5),
            (258, 285, 0),
        ] {
            assert_eq!(
                length_code(length - 3),
                (code - FIRST_LENGTH, extra),
                "{length}"
            );
        }
        for (distance, code, extra) in [
            (1, 0, 0),
            (4, 3, 0),
            (5, 4, 1),
            (7, 5, 1),
            (9, 6, 2),
            (24577, 29, 13),
            (32768, 29, 13),
        ] {
            assert_eq!(distance_code(distance - 1), (code, extra), "{distance}");
        }
    }
}

//! Prefix codes with the lengths that Go's encoders choose, klauspost/compress included.
//!
//! The cheapest codes with a maximum length are not unique. Go builds them by package-merge and
//! prefers a package to a symbol of equal weight; the same rule gives the same lengths.

use crate::symbols::{Code, LONGEST_CODE, reversed};

/// Returns codes for symbols with these frequencies, of at most `longest` bits.
pub(super) fn codes(frequencies: &[u32], longest: usize) -> Vec<Code> {
    let mut leaves: Vec<(u32, u16)> = (0u16..)
        .zip(frequencies)
        .filter(|(_, frequency)| **frequency > 0)
        .map(|(symbol, frequency)| (*frequency, symbol))
        .collect();
    let mut codes = vec![Code::default(); frequencies.len()];
    if leaves.len() <= 2 {
        for (bits, (_, symbol)) in (0u16..).zip(&leaves) {
            codes[usize::from(*symbol)] = Code { bits, length: 1 };
        }
        return codes;
    }
    leaves.sort_unstable();
    let counts = lengths(&leaves, longest.min(leaves.len() - 1));
    assign(&mut leaves, &counts, &mut codes);
    codes
}

/// Returns how many of the sorted leaves have codes of each length; entry 0 stays empty.
///
/// Each row is the leaves merged with the packages of the row before; a package is two neighbours.
/// Of the last row, the first `2n - 2` items count. Each package among them stands for two items of
/// the row before. The length of a leaf's code is the number of rows in which the leaf counts.
fn lengths(leaves: &[(u32, u16)], longest: usize) -> [usize; LONGEST_CODE + 1] {
    let wanted = 2 * leaves.len() - 2;
    // For each row: its weights, and the number of leaves among its first i items.
    let mut row: Vec<u64> = Vec::with_capacity(wanted);
    let mut before: Vec<u64> = Vec::with_capacity(wanted);
    let mut leaves_among: Vec<Vec<u16>> = Vec::with_capacity(longest);
    for _ in 0..longest {
        std::mem::swap(&mut row, &mut before);
        row.clear();
        let mut among = Vec::with_capacity(wanted + 1);
        among.push(0);
        let mut packages = before
            .chunks_exact(2)
            .map(|pair| pair[0] + pair[1])
            .peekable();
        let mut taken = 0;
        while row.len() < wanted {
            let leaf = leaves
                .get(taken)
                .map(|(frequency, _)| u64::from(*frequency));
            match (packages.peek().copied(), leaf) {
                (Some(package), Some(leaf)) if leaf < package => {
                    row.push(leaf);
                    taken += 1;
                }
                (Some(package), _) => {
                    row.push(package);
                    packages.next();
                }
                (None, Some(leaf)) => {
                    row.push(leaf);
                    taken += 1;
                }
                (None, None) => break,
            }
            among.push(taken as u16);
        }
        leaves_among.push(among);
    }
    let mut counts = [0; LONGEST_CODE + 1];
    let (mut items, mut longer, mut bits) = (wanted, leaves.len(), 0);
    for among in leaves_among.iter().rev() {
        let counted = usize::from(among[items.min(among.len() - 1)]);
        counts[bits] = longer - counted;
        longer = counted;
        items = 2 * (items - counted);
        bits += 1;
    }
    counts[bits] = longer;
    counts
}

/// Assigns codes: the rarest leaves have the longest codes, and equal lengths are in the order of
/// the symbols (RFC 1951, section 3.2.2).
fn assign(leaves: &mut [(u32, u16)], counts: &[usize; LONGEST_CODE + 1], codes: &mut [Code]) {
    let mut next = 0u16;
    let mut rest = leaves;
    for (length, &count) in counts.iter().enumerate() {
        next <<= 1;
        if length == 0 || count == 0 {
            continue;
        }
        let (shorter, same) = rest.split_at_mut(rest.len() - count);
        same.sort_unstable_by_key(|(_, symbol)| *symbol);
        for (_, symbol) in same.iter() {
            codes[usize::from(*symbol)] = Code {
                bits: reversed(next, length as u8),
                length: length as u8,
            };
            next += 1;
        }
        rest = shorter;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::tests::assert_complete;

    #[test]
    fn codes_are_complete_and_short_enough() {
        assert_complete(codes);
    }

    #[test]
    fn few_symbols_get_one_bit() {
        let codes = codes(&[0, 7, 0, 9], LONGEST_CODE);
        assert_eq!(codes[1], Code { bits: 0, length: 1 });
        assert_eq!(codes[3], Code { bits: 1, length: 1 });
        assert_eq!(codes[0], Code::default());
    }
}

//! Prefix codes with the lengths that zlib chooses. zlib runs Huffman's algorithm on a heap in which
//! the shallower of two equally frequent trees is the smaller one, and then shortens codes that are
//! too long. Ties decide the lengths, so this module moves heap entries exactly as zlib does.

use crate::symbols::{Code, LONGEST_CODE, reversed};

/// A code for each symbol, and the highest symbol that has one.
pub(super) struct Tree {
    pub(super) codes: Vec<Code>,
    pub(super) last: usize,
}

/// The nodes of a tree under construction: symbols first, then inner nodes.
struct Nodes {
    frequency: Vec<u32>,
    depth: Vec<u8>,
    parent: Vec<usize>,
}

impl Nodes {
    fn smaller(&self, a: usize, b: usize) -> bool {
        (self.frequency[a], self.depth[a]) <= (self.frequency[b], self.depth[b])
    }

    /// Moves the node at `place` down until both children are greater. Places start at 1.
    fn sift(&self, heap: &mut [usize], mut place: usize) {
        let moved = heap[place - 1];
        let mut son = 2 * place;
        while son <= heap.len() {
            if son < heap.len() && self.smaller(heap[son], heap[son - 1]) {
                son += 1;
            }
            if self.smaller(moved, heap[son - 1]) {
                break;
            }
            heap[place - 1] = heap[son - 1];
            place = son;
            son *= 2;
        }
        heap[place - 1] = moved;
    }
}

impl Tree {
    /// Returns codes for symbols with these frequencies, of at most `longest` bits. There are at
    /// least two codes, as in zlib, because some old decoders need them.
    pub(super) fn new(frequencies: &[u32], longest: usize) -> Self {
        let symbols = frequencies.len();
        let mut nodes = Nodes {
            frequency: frequencies.to_vec(),
            depth: vec![0; symbols],
            parent: vec![0; symbols],
        };
        let mut heap: Vec<usize> = (0..symbols).filter(|s| frequencies[*s] != 0).collect();
        let mut last = heap.last().copied();
        while heap.len() < 2 {
            let added = match last {
                None => 0,
                Some(highest) if highest < 2 => highest + 1,
                Some(_) => 0,
            };
            last = last.max(Some(added));
            nodes.frequency[added] = 1;
            heap.push(added);
        }
        let last = last.unwrap_or(0);
        let order = grow(&mut nodes, &mut heap);
        let lengths = lengths(&nodes, &order, symbols, longest);
        Self {
            codes: canonical(&lengths),
            last,
        }
    }
}

/// Joins the two smallest trees until one is left. Returns the nodes in the order in which they left
/// the heap; the root is the last one.
fn grow(nodes: &mut Nodes, heap: &mut Vec<usize>) -> Vec<usize> {
    for place in (1..=heap.len() / 2).rev() {
        nodes.sift(heap, place);
    }
    let mut order = Vec::with_capacity(2 * heap.len());
    loop {
        let first = heap.swap_remove(0);
        nodes.sift(heap, 1);
        let second = heap[0];
        order.extend([first, second]);
        nodes
            .frequency
            .push(nodes.frequency[first] + nodes.frequency[second]);
        nodes
            .depth
            .push(nodes.depth[first].max(nodes.depth[second]) + 1);
        nodes.parent.push(0);
        let joined = nodes.frequency.len() - 1;
        nodes.parent[first] = joined;
        nodes.parent[second] = joined;
        heap[0] = joined;
        if heap.len() < 2 {
            order.push(joined);
            return order;
        }
        nodes.sift(heap, 1);
    }
}

/// Returns the length of each symbol's code.
fn lengths(nodes: &Nodes, order: &[usize], symbols: usize, longest: usize) -> Vec<u8> {
    let mut depth = vec![0usize; nodes.frequency.len()];
    let mut counts = [0usize; LONGEST_CODE + 1];
    let mut too_long = 0;
    for &node in order.iter().rev().skip(1) {
        let mut length = depth[nodes.parent[node]] + 1;
        if length > longest {
            length = longest;
            too_long += 1;
        }
        depth[node] = length;
        if node < symbols {
            counts[length] += 1;
        }
    }
    if too_long > 0 {
        shorten(&mut counts, too_long, longest);
        // The rarest symbols get the longest codes.
        let mut leaves = order.iter().filter(|node| **node < symbols);
        for length in (1..=longest).rev() {
            for &leaf in leaves.by_ref().take(counts[length]) {
                depth[leaf] = length;
            }
        }
    }
    depth[..symbols]
        .iter()
        .map(|length| *length as u8)
        .collect()
}

/// Corrects the lengths after codes were cut to the maximum: each time, one leaf moves down a level
/// and becomes the sibling of one of them.
fn shorten(counts: &mut [usize; LONGEST_CODE + 1], too_long: usize, longest: usize) {
    let mut left = too_long as isize;
    while left > 0 {
        let shorter = (1..longest).rev().find(|length| counts[*length] > 0);
        let Some(shorter) = shorter else { return };
        counts[shorter] -= 1;
        counts[shorter + 1] += 2;
        counts[longest] -= 1;
        left -= 2;
    }
}

/// Returns codes of these lengths in the order of their symbols (RFC 1951, section 3.2.2).
fn canonical(lengths: &[u8]) -> Vec<Code> {
    let mut next = [0u16; LONGEST_CODE + 1];
    let mut counts = [0u16; LONGEST_CODE + 1];
    for length in lengths.iter().filter(|length| **length > 0) {
        counts[usize::from(*length)] += 1;
    }
    for length in 1..LONGEST_CODE {
        next[length + 1] = (next[length] + counts[length]) << 1;
    }
    let code = |&length: &u8| {
        if length == 0 {
            return Code::default();
        }
        let bits = next[usize::from(length)];
        next[usize::from(length)] += 1;
        Code {
            bits: reversed(bits, length),
            length,
        }
    };
    lengths.iter().map(code).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::tests::assert_complete;

    #[test]
    fn codes_are_complete_and_short_enough() {
        assert_complete(|frequencies, longest| Tree::new(frequencies, longest).codes);
    }

    #[test]
    fn there_are_two_codes_at_least() {
        for (frequencies, last) in [([0, 0, 0, 0], 1), ([5, 0, 0, 0], 1), ([0, 0, 0, 5], 3)] {
            let tree = Tree::new(&frequencies, 15);
            assert_eq!(tree.codes.iter().filter(|code| code.length == 1).count(), 2);
            assert_eq!(tree.last, last);
        }
    }
}

//! Levels 1 and 2: one table of hashes of five bytes. Level 2 has a larger table and inserts more
//! positions.

use super::history::{FARTHEST, View, hash5};
use super::search::Search;
use super::tokens::Tokens;

const SMALL_BITS: u32 = 15;
const LARGE_BITS: u32 = 17;
/// The distance between searched positions grows by one after two to this power of bytes without a
/// match.
const PATIENCE: u32 = 5;

/// Returns the position of an entry at a distance of at most [`FARTHEST`]: the search directly after
/// a match permits equality.
#[inline]
fn just_in_reach(view: View<'_>, entry: u32, at: usize) -> Option<usize> {
    let distance = view.place(at).wrapping_sub(entry) as usize;
    (distance <= FARTHEST).then(|| at - distance)
}

/// The table of level 1.
pub(super) struct Small {
    table: Box<[u32; 1 << SMALL_BITS]>,
}

impl Small {
    pub(super) fn new() -> Self {
        Self {
            table: Box::new([0; 1 << SMALL_BITS]),
        }
    }
}

impl Search for Small {
    fn lower(&mut self, by: u32) {
        for entry in self.table.iter_mut() {
            *entry = entry.saturating_sub(by);
        }
    }

    fn search(&mut self, view: View<'_>, tokens: &mut Tokens) -> usize {
        let table = &mut *self.table;
        let (mut at, mut coded) = (view.start, view.start);
        let mut bytes = view.eight(at);
        loop {
            let mut next;
            let mut from = loop {
                let slot = hash5::<SMALL_BITS>(bytes);
                let seen = table[slot];
                next = at + 2 + ((at - coded) >> PATIENCE);
                if next > view.limit {
                    return coded;
                }
                let ahead = view.eight(next);
                table[slot] = view.place(at);
                let slot = hash5::<SMALL_BITS>(ahead);
                if let Some(from) = view.near(seen, at)
                    && view.four(from) == bytes as u32
                {
                    table[slot] = view.place(next);
                    break from;
                }
                // Searches again directly after the match.
                bytes = ahead;
                at = next;
                next += 1;
                let seen = std::mem::replace(&mut table[slot], view.place(at));
                if let Some(from) = view.near(seen, at)
                    && view.four(from) == bytes as u32
                {
                    table[slot] = view.place(next);
                    break from;
                }
                bytes = ahead >> 8;
                at = next;
            };
            loop {
                let back = view.extend_back(at, from, coded);
                let length = back + view.length(at, from);
                tokens.literals(&view.bytes[coded..at - back]);
                tokens.matched(length, at - from);
                at += length - back;
                coded = at;
                at = at.max(next + 1);
                if at >= view.limit {
                    if at + length + 8 < view.bytes.len() {
                        table[hash5::<SMALL_BITS>(view.eight(at))] = view.place(at);
                    }
                    return coded;
                }
                let around = view.eight(at - 2);
                table[hash5::<SMALL_BITS>(around)] = view.place(at - 2);
                let here = around >> 16;
                let slot = hash5::<SMALL_BITS>(here);
                let seen = std::mem::replace(&mut table[slot], view.place(at));
                match just_in_reach(view, seen, at) {
                    Some(again) if view.four(again) == here as u32 => from = again,
                    _ => {
                        bytes = here >> 8;
                        at += 1;
                        break;
                    }
                }
            }
        }
    }
}

/// The table of level 2.
pub(super) struct Large {
    table: Box<[u32; 1 << LARGE_BITS]>,
}

impl Large {
    pub(super) fn new() -> Self {
        Self { table: boxed() }
    }
}

fn boxed() -> Box<[u32; 1 << LARGE_BITS]> {
    Box::new([0; 1 << LARGE_BITS])
}

impl Search for Large {
    fn lower(&mut self, by: u32) {
        for entry in self.table.iter_mut() {
            *entry = entry.saturating_sub(by);
        }
    }

    fn search(&mut self, view: View<'_>, tokens: &mut Tokens) -> usize {
        let table = &mut *self.table;
        let (mut at, mut coded) = (view.start, view.start);
        let mut bytes = view.eight(at);
        loop {
            let mut next = at;
            let mut from = loop {
                let slot = hash5::<LARGE_BITS>(bytes);
                at = next;
                next = at + 2 + ((at - coded) >> PATIENCE);
                if next > view.limit {
                    return coded;
                }
                let ahead = view.eight(next);
                let seen = std::mem::replace(&mut table[slot], view.place(at));
                let slot = hash5::<LARGE_BITS>(ahead);
                if let Some(from) = view.near(seen, at)
                    && view.four(from) == bytes as u32
                {
                    table[slot] = view.place(next);
                    break from;
                }
                // Searches again directly after the match.
                bytes = ahead;
                at = next;
                next += 1;
                let seen = std::mem::replace(&mut table[slot], view.place(at));
                if let Some(from) = view.near(seen, at)
                    && view.four(from) == bytes as u32
                {
                    break from;
                }
                bytes = ahead >> 8;
            };
            loop {
                let back = view.extend_back(at, from, coded);
                let length = back + view.length(at, from);
                tokens.literals(&view.bytes[coded..at - back]);
                tokens.matched(length, at - from);
                at += length - back;
                coded = at;
                at = at.max(next + 1);
                if at >= view.limit {
                    if at + length + 8 < view.bytes.len() {
                        table[hash5::<LARGE_BITS>(view.eight(at))] = view.place(at);
                    }
                    return coded;
                }
                // Inserts every second position in the match, three for each eight
                // bytes.
                for inside in (at + 2 - length..at - 5).step_by(7) {
                    let bytes = view.eight(inside);
                    for more in [0, 2, 4] {
                        let slot = hash5::<LARGE_BITS>(bytes >> (8 * more));
                        table[slot] = view.place(inside + more);
                    }
                }
                let around = view.eight(at - 2);
                table[hash5::<LARGE_BITS>(around)] = view.place(at - 2);
                table[hash5::<LARGE_BITS>(around >> 8)] = view.place(at - 1);
                let here = around >> 16;
                let slot = hash5::<LARGE_BITS>(here);
                let seen = std::mem::replace(&mut table[slot], view.place(at));
                match just_in_reach(view, seen, at) {
                    Some(again) if view.four(again) == here as u32 => from = again,
                    _ => {
                        bytes = here >> 8;
                        at += 1;
                        break;
                    }
                }
            }
        }
    }
}

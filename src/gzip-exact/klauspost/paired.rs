//! Level 3: one table of hashes of five bytes, with the last two positions of each.

use super::history::{FARTHEST, View, hash5};
use super::search::Search;
use super::tokens::Tokens;

const BITS: u32 = 16;
const PATIENCE: u32 = 7;

/// The two newest positions of a hash, the newest first.
pub(super) type Pair = [u32; 2];

/// The table of level 3.
pub(super) struct Paired {
    table: Box<[Pair; 1 << BITS]>,
}

impl Paired {
    pub(super) fn new() -> Self {
        Self {
            table: Box::new([[0; 2]; 1 << BITS]),
        }
    }

    /// Inserts a position. Returns those before it.
    #[inline]
    fn enter(&mut self, bytes: u64, place: u32) -> Pair {
        let pair = &mut self.table[hash5::<BITS>(bytes)];
        std::mem::replace(pair, [place, pair[0]])
    }
}

impl Search for Paired {
    fn lower(&mut self, by: u32) {
        for entry in self.table.iter_mut().flatten() {
            *entry = entry.saturating_sub(by);
        }
    }

    fn search(&mut self, view: View<'_>, tokens: &mut Tokens) -> usize {
        let (mut at, mut coded) = (view.start, view.start);
        let mut bytes = view.eight(at);
        loop {
            let mut next = at;
            let mut from = loop {
                at = next;
                next = at + 1 + ((at - coded) >> PATIENCE);
                if next > view.limit {
                    return coded;
                }
                let ahead = view.eight(next);
                let seen = self.enter(bytes, view.place(at));
                match better(view, seen, at, bytes as u32) {
                    Some(from) => break from,
                    None => bytes = ahead,
                }
            };
            loop {
                let back = view.extend_back(at, from, coded);
                let length = back + view.length(at, from);
                tokens.literals(&view.bytes[coded..at - back]);
                tokens.matched(length, at - from);
                from = from - back + length;
                at += length - back;
                coded = at;
                at = at.max(next + 1);
                if at >= view.limit {
                    if from + 8 < view.bytes.len() {
                        self.enter(view.eight(from), view.place(from));
                    }
                    return coded;
                }
                for inside in (at + 2 - length..at - 5).step_by(6) {
                    self.enter(view.eight(inside), view.place(inside));
                }
                let around = view.eight(at - 2);
                self.enter(around, view.place(at - 2));
                self.enter(around >> 8, view.place(at - 1));
                let here = around >> 16;
                let seen = self.enter(here, view.place(at));
                match first(view, seen, at, here as u32) {
                    Some(again) => from = again,
                    None => {
                        bytes = here >> 8;
                        at += 1;
                        break;
                    }
                }
            }
        }
    }
}

/// The distance limit is four bytes less than [`FARTHEST`]. The full distance is allowed only for
/// the newest position and at the start of a search.
#[inline]
fn in_reach(view: View<'_>, entry: u32, at: usize, least: usize) -> Option<usize> {
    let distance = view.place(at).wrapping_sub(entry) as usize;
    (distance <= FARTHEST - 4 - least).then(|| at - distance)
}

/// Returns the position with the longer match.
#[inline]
fn better(view: View<'_>, seen: Pair, at: usize, wanted: u32) -> Option<usize> {
    let newest = in_reach(view, seen[0], at, 0)?;
    let matches = |from: &usize| view.four(*from) == wanted;
    if view.four(newest) != wanted {
        return in_reach(view, seen[1], at, 1).filter(matches);
    }
    let before = in_reach(view, seen[1], at, 0).filter(matches);
    match before {
        Some(before) if view.length(at, before) > view.length(at, newest) => Some(before),
        _ => Some(newest),
    }
}

/// Returns the newest position with a match.
#[inline]
fn first(view: View<'_>, seen: Pair, at: usize, wanted: u32) -> Option<usize> {
    let newest = in_reach(view, seen[0], at, 1)?;
    if view.four(newest) == wanted {
        return Some(newest);
    }
    in_reach(view, seen[1], at, 1).filter(|from| view.four(*from) == wanted)
}

//! Level 4: a table of hashes of four bytes and one of hashes of seven bytes.

use super::history::{View, hash4, hash7};
use super::search::Search;
use super::tokens::Tokens;

pub(super) const BITS: u32 = 15;
const PATIENCE: u32 = 6;

/// The tables of level 4.
pub(super) struct Double {
    short: Box<[u32; 1 << BITS]>,
    long: Box<[u32; 1 << BITS]>,
    /// Since 1.18.0, the length of the match at the next position is measured from a wrong
    /// position.
    mismeasured: bool,
}

impl Double {
    pub(super) fn new(mismeasured: bool) -> Self {
        Self {
            short: Box::new([0; 1 << BITS]),
            long: Box::new([0; 1 << BITS]),
            mismeasured,
        }
    }

    #[inline]
    fn enter_short(&mut self, bytes: u64, place: u32) -> u32 {
        std::mem::replace(&mut self.short[hash4::<BITS>(bytes)], place)
    }

    #[inline]
    fn enter_long(&mut self, bytes: u64, place: u32) -> u32 {
        std::mem::replace(&mut self.long[hash7::<BITS>(bytes)], place)
    }

    /// Returns the position of the match for the four bytes at `at`, or of the better one at
    /// `next`.
    #[inline]
    fn candidate(
        &mut self,
        view: View<'_>,
        at: usize,
        bytes: u64,
        next: usize,
        ahead: u64,
    ) -> Option<(usize, usize)> {
        let short = self.enter_short(bytes, view.place(at));
        let long = self.enter_long(bytes, view.place(at));
        let matches = |from: &usize| view.four(*from) == bytes as u32;
        if let Some(from) = view.near(long, at).filter(matches) {
            return Some((at, from));
        }
        let from = view.near(short, at).filter(matches)?;
        let long = self.long[hash7::<BITS>(ahead)];
        let other = view
            .near(long, next)
            .filter(|from| view.four(*from) == ahead as u32);
        let Some(other) = other else {
            return Some((at, from));
        };
        let measured = if self.mismeasured {
            next - other
        } else {
            other
        };
        if view.matching(next + 4, measured + 4) > view.matching(at + 4, from + 4) {
            Some((next, other))
        } else {
            Some((at, from))
        }
    }
}

impl Search for Double {
    fn lower(&mut self, by: u32) {
        for entry in self.short.iter_mut().chain(self.long.iter_mut()) {
            *entry = entry.saturating_sub(by);
        }
    }

    fn search(&mut self, view: View<'_>, tokens: &mut Tokens) -> usize {
        let (mut at, mut coded) = (view.start, view.start);
        let mut bytes = view.eight(at);
        loop {
            let mut next = at;
            let from = loop {
                at = next;
                next = at + 1 + ((at - coded) >> PATIENCE);
                if next > view.limit {
                    return coded;
                }
                let ahead = view.eight(next);
                if let Some((place, from)) = self.candidate(view, at, bytes, next, ahead) {
                    at = place;
                    break from;
                }
                bytes = ahead;
            };
            let back = view.extend_back(at, from, coded);
            let length = back + view.length(at, from);
            tokens.literals(&view.bytes[coded..at - back]);
            tokens.matched(length, at - from);
            at += length - back;
            coded = at;
            at = at.max(next + 1);
            if at >= view.limit {
                if at + 8 < view.bytes.len() {
                    let bytes = view.eight(at);
                    self.enter_short(bytes, view.place(at));
                    self.enter_long(bytes, view.place(at));
                }
                return coded;
            }
            for inside in (next..at - 1).step_by(3) {
                let bytes = view.eight(inside);
                self.enter_long(bytes, view.place(inside));
                self.enter_long(bytes >> 8, view.place(inside + 1));
                self.enter_short(bytes >> 8, view.place(inside + 1));
            }
            let around = view.eight(at - 1);
            self.enter_short(around, view.place(at - 1));
            self.enter_long(around, view.place(at - 1));
            bytes = around >> 8;
        }
    }
}

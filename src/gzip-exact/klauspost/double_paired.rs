//! Levels 5 and 6: a table of hashes of four bytes, and one of hashes of seven bytes with the last
//! two positions of each. At the end of a match, a longer match that ends later is searched.

use super::double::BITS;
use super::history::{FARTHEST, View, hash4, hash7};
use super::paired::Pair;
use super::search::Search;
use super::tokens::Tokens;

/// A match that ends later may begin up to this number of bytes later; usually it extends back.
const LATER: usize = 2;

/// Both tables.
struct Tables {
    short: Box<[u32; 1 << BITS]>,
    long: Box<[Pair; 1 << BITS]>,
}

/// A match: its position, the position that it refers to, and its length if it is known.
#[derive(Clone, Copy)]
struct Found {
    at: usize,
    from: usize,
    length: Option<usize>,
}

impl Tables {
    fn new() -> Self {
        Self {
            short: Box::new([0; 1 << BITS]),
            long: Box::new([[0; 2]; 1 << BITS]),
        }
    }

    fn lower(&mut self, by: u32) {
        let long = self.long.iter_mut().flatten();
        for entry in self.short.iter_mut().chain(long) {
            *entry = entry.saturating_sub(by);
        }
    }

    #[inline]
    fn enter_short(&mut self, bytes: u64, place: u32) -> u32 {
        std::mem::replace(&mut self.short[hash4::<BITS>(bytes)], place)
    }

    #[inline]
    fn enter_long(&mut self, bytes: u64, place: u32) -> Pair {
        let pair = &mut self.long[hash7::<BITS>(bytes)];
        std::mem::replace(pair, [place, pair[0]])
    }

    /// Searches a match for the bytes at `at`. `repeat` is the distance of the last match, if it
    /// matters.
    #[inline(always)]
    fn candidate(
        &mut self,
        view: View<'_>,
        (at, bytes): (usize, u64),
        (next, ahead): (usize, u64),
        repeat: Option<usize>,
    ) -> Option<Found> {
        let short = self.enter_short(bytes, view.place(at));
        let long = self.enter_long(bytes, view.place(at));
        let matches = |from: &usize| view.four(*from) == bytes as u32;
        if let Some(newest) = view.near(long[0], at) {
            let before = view.near(long[1], at).filter(matches);
            if matches(&newest) {
                self.enter_short(ahead, view.place(next));
                self.enter_long(ahead, view.place(next));
                return Some(longer(view, at, newest, before));
            }
            if let Some(from) = before {
                self.enter_short(ahead, view.place(next));
                self.enter_long(ahead, view.place(next));
                let length = None;
                return Some(Found { at, from, length });
            }
        }
        let from = view.near(short, at).filter(matches)?;
        let length = view.limited(at, from);
        self.enter_short(ahead, view.place(next));
        let long = self.enter_long(ahead, view.place(next));
        let found = Measured { at, from, length };
        Some(match repeat {
            None => found.or_longest(view, long, (next, ahead)),
            Some(repeat) => match found.repeated(view, bytes, repeat) {
                Some(repeated) => repeated.into(),
                None => found.or_any_longer(view, long, (next, ahead)),
            },
        })
    }
}

/// Returns the longer of two matches at the same position, or the newer one.
#[inline]
fn longer(view: View<'_>, at: usize, newest: usize, before: Option<usize>) -> Found {
    let Some(before) = before else {
        let length = None;
        return Found {
            at,
            from: newest,
            length,
        };
    };
    let (length, other) = (view.limited(at, newest), view.limited(at, before));
    let (from, length) = if other > length {
        (before, other)
    } else {
        (newest, length)
    };
    Found {
        at,
        from,
        length: Some(length),
    }
}

/// A match of known length.
#[derive(Clone, Copy)]
struct Measured {
    at: usize,
    from: usize,
    length: usize,
}

impl From<Measured> for Found {
    fn from(measured: Measured) -> Self {
        Self {
            at: measured.at,
            from: measured.from,
            length: Some(measured.length),
        }
    }
}

impl Measured {
    /// Returns the match at the next position, if it is longer than this one.
    #[inline]
    fn at_next(self, view: View<'_>, entry: u32, (at, ahead): (usize, u64)) -> Option<Self> {
        let from = view.near(entry, at)?;
        if view.four(from) != ahead as u32 {
            return None;
        }
        let length = view.limited(at, from);
        (length > self.length).then_some(Self { at, from, length })
    }

    /// Returns this match, or the first of the longer ones at the next position.
    #[inline]
    fn or_longest(self, view: View<'_>, seen: Pair, next: (usize, u64)) -> Found {
        if view.near(seen[0], next.0).is_none() {
            return self.into();
        }
        let newest = self.at_next(view, seen[0], next);
        let found = newest.or_else(|| self.at_next(view, seen[1], next));
        found.unwrap_or(self).into()
    }

    /// Returns this match, or the longest one at the next position.
    #[inline]
    fn or_any_longer(self, view: View<'_>, seen: Pair, next: (usize, u64)) -> Found {
        if view.near(seen[0], next.0).is_none() {
            return self.into();
        }
        let found = self.at_next(view, seen[0], next).unwrap_or(self);
        found.at_next(view, seen[1], next).unwrap_or(found).into()
    }

    /// Returns the match at the next byte with the distance of the last match, if it is longer.
    #[inline]
    fn repeated(self, view: View<'_>, bytes: u64, repeat: usize) -> Option<Self> {
        let at = self.at + 1;
        // At the first match, which has none before it, the distance is 0.
        let from = at - repeat;
        if view.four(from) != (bytes >> 8) as u32 {
            return None;
        }
        let length = view.limited(at, from);
        (length > self.length).then_some(Self { at, from, length })
    }

    /// Returns the match that begins a little later, at the position where the bytes after this
    /// match were seen, if it is longer.
    #[inline]
    fn at_end(self, view: View<'_>, entry: u32, start: usize) -> Option<Self> {
        let from = view.index(entry) - self.length as isize + LATER as isize;
        let at = start + LATER;
        let distance = at as isize - from;
        if from < 0 || distance <= 0 || distance >= FARTHEST as isize {
            return None;
        }
        let from = from as usize;
        let length = view.matching(at, from);
        (length > self.length).then_some(Self { at, from, length })
    }
}

impl Found {
    /// Measures the match to its end.
    #[inline]
    fn measured(self, view: View<'_>) -> Measured {
        const LONGEST: usize = 258;
        let Self { at, from, length } = self;
        let length = match length {
            None => view.length(at, from),
            Some(LONGEST) => LONGEST + view.matching(at + LONGEST, from + LONGEST),
            Some(length) => length,
        };
        Measured { at, from, length }
    }
}

/// The tables of level 5.
pub(super) struct Fifth(Tables);

impl Fifth {
    pub(super) fn new() -> Self {
        Self(Tables::new())
    }
}

impl Search for Fifth {
    fn lower(&mut self, by: u32) {
        self.0.lower(by);
    }

    fn search(&mut self, view: View<'_>, tokens: &mut Tokens) -> usize {
        const PATIENCE: u32 = 6;
        /// Longer matches are used without a further search.
        const GOOD: usize = 30;
        let tables = &mut self.0;
        let (mut at, mut coded) = (view.start, view.start);
        let mut bytes = view.eight(at);
        loop {
            let mut next = at;
            let found = loop {
                at = next;
                next = at + 1 + ((at - coded) >> PATIENCE);
                if next > view.limit {
                    return coded;
                }
                let ahead = view.eight(next);
                if let Some(found) = tables.candidate(view, (at, bytes), (next, ahead), None) {
                    break found;
                }
                bytes = ahead;
            };
            let mut found = found.measured(view);
            let end = found.at + found.length;
            if found.length < GOOD && end < view.limit {
                let entry = tables.long[hash7::<BITS>(view.eight(end))][0];
                found = found.at_end(view, entry, found.at).unwrap_or(found);
            }
            let (length, behind) = emit(view, tokens, found, coded);
            coded = behind;
            at = behind.max(next + 1);
            if at >= view.limit {
                return coded;
            }
            let inside = at + 1 - length;
            if inside < at - 1 {
                let bytes = view.eight(inside);
                tables.enter_short(bytes, view.place(inside));
                tables.enter_long(bytes, view.place(inside));
                tables.enter_long(bytes >> 8, view.place(inside + 1));
                tables.enter_short(bytes >> 16, view.place(inside + 2));
                for inside in (inside + 4..at - 1).step_by(3) {
                    let bytes = view.eight(inside);
                    tables.enter_long(bytes, view.place(inside));
                    tables.enter_short(bytes >> 8, view.place(inside + 1));
                }
            }
            let around = view.eight(at - 1);
            tables.enter_short(around, view.place(at - 1));
            tables.enter_long(around, view.place(at - 1));
            bytes = around >> 8;
        }
    }
}

/// The tables of level 6.
pub(super) struct Sixth(Tables);

impl Sixth {
    pub(super) fn new() -> Self {
        Self(Tables::new())
    }
}

impl Search for Sixth {
    fn lower(&mut self, by: u32) {
        self.0.lower(by);
    }

    fn search(&mut self, view: View<'_>, tokens: &mut Tokens) -> usize {
        const PATIENCE: u32 = 7;
        let tables = &mut self.0;
        let (mut at, mut coded) = (view.start, view.start);
        let mut bytes = view.eight(at);
        let mut repeat = 1;
        loop {
            let mut next = at;
            let found = loop {
                at = next;
                next = at + 1 + ((at - coded) >> PATIENCE);
                if next > view.limit {
                    return coded;
                }
                let ahead = view.eight(next);
                let found = tables.candidate(view, (at, bytes), (next, ahead), Some(repeat));
                if let Some(found) = found {
                    break found;
                }
                bytes = ahead;
            };
            let mut found = found.measured(view);
            let (start, end) = (found.at, found.at + found.length);
            if end < view.limit {
                let pair = tables.long[hash7::<BITS>(view.eight(end))];
                // If the newest position is too far back, so is the one before it.
                if end as isize - view.index(pair[0]) < FARTHEST as isize {
                    found = found.at_end(view, pair[0], start).unwrap_or(found);
                    found = found.at_end(view, pair[1], start).unwrap_or(found);
                }
            }
            repeat = found.at - found.from;
            let (_, behind) = emit(view, tokens, found, coded);
            coded = behind;
            at = behind.max(next + 1);
            if at >= view.limit {
                for inside in (next + 1..view.bytes.len() - 8).step_by(2) {
                    let bytes = view.eight(inside);
                    tables.enter_short(bytes, view.place(inside));
                    tables.enter_long(bytes, view.place(inside));
                }
                return coded;
            }
            for inside in (next + 1..at - 1).step_by(2) {
                let bytes = view.eight(inside);
                tables.enter_short(bytes, view.place(inside));
                tables.enter_long(bytes, view.place(inside));
                tables.enter_long(bytes >> 8, view.place(inside + 1));
            }
            bytes = view.eight(at);
        }
    }
}

/// Adds the literals before a match and the match, which may begin earlier than it was found.
/// Returns its length and its end.
#[inline(always)]
fn emit(view: View<'_>, tokens: &mut Tokens, found: Measured, coded: usize) -> (usize, usize) {
    let back = view.extend_back(found.at, found.from, coded);
    let length = found.length + back;
    let begin = found.at - back;
    tokens.literals(&view.bytes[coded..begin]);
    tokens.matched(length, found.at - found.from);
    (length, begin + length)
}

//! Which connection asks for which part of a file.
//!
//! Parts are large while much is open, so that few requests are needed, and get smaller towards the
//! end, so that no connection has long to do when the others are done. They are taken from the front:
//! the hash follows there.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

const MIB: u64 = 1024 * 1024;
/// Connections for one file.
pub(super) const STREAMS: u64 = 4;
/// Files below this are not worth a second connection.
pub(super) const RANGED: u64 = 4 * MIB;
/// What is asked for at first, where the size of the file is not known.
pub(super) const FIRST: u64 = 2 * MIB;
/// Parts are not smaller than this: each costs the time that a request takes to be answered.
const SMALLEST: u64 = MIB;
/// Parts are not larger than this: the hash may have to read so much again.
const LARGEST: u64 = 64 * MIB;

/// Stretches of a file that nobody has asked for yet.
#[derive(Default)]
pub(super) struct Shares(Mutex<Vec<Range<u64>>>);

impl Shares {
    /// Begins with what is missing.
    pub fn begin(&self, gaps: Vec<Range<u64>>) {
        *self.open() = gaps;
    }

    /// How many connections the rest is worth.
    pub fn worth(&self) -> u64 {
        bytes(&self.open()).div_ceil(SMALLEST)
    }

    /// The next part to ask for.
    pub fn take(&self) -> Option<Range<u64>> {
        let mut open = self.open();
        let length = (bytes(&open) / (2 * STREAMS)).clamp(SMALLEST, LARGEST);
        let first = open.first_mut()?;
        let end = match first.start.saturating_add(length) {
            // A little rest is not worth a request of its own.
            end if end.saturating_add(SMALLEST / 2) < first.end => end,
            _ => first.end,
        };
        let part = first.start..end;
        first.start = end;
        if first.is_empty() {
            open.remove(0);
        }
        Some(part)
    }

    /// What was taken and did not come.
    pub fn give_back(&self, rest: Range<u64>) {
        if !rest.is_empty() {
            self.open().insert(0, rest);
        }
    }

    fn open(&self) -> MutexGuard<'_, Vec<Range<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bytes(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_everything_once_and_shrink_towards_the_end() {
        let shares = Shares::default();
        shares.begin(vec![5..7, 100 * MIB..400 * MIB + 3]);
        let (mut parts, mut given_back) = (Vec::new(), false);
        while let Some(part) = shares.take() {
            if parts.len() == 3 && !given_back {
                given_back = true;
                shares.give_back(part.start + 9..part.end);
                parts.push(part.start..part.start + 9);
                continue;
            }
            parts.push(part);
        }
        parts.sort_by_key(|part| part.start);
        assert_eq!(parts[0], 5..7);
        assert!(
            parts[1..]
                .windows(2)
                .all(|pair| pair[0].end == pair[1].start)
        );
        assert_eq!(
            (parts[1].start, parts.last().unwrap().end),
            (100 * MIB, 400 * MIB + 3)
        );
        let length = |part: &Range<u64>| part.end - part.start;
        assert!(length(&parts[1]) > 30 * MIB && length(parts.last().unwrap()) < 2 * MIB);
        assert!(parts.len() < 60, "{}", parts.len());
    }
}

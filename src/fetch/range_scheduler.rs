//! Scheduling of byte ranges over the connections of one file.
//!
//! Ranges are large at first, so that few requests are needed. They get smaller towards the end, so that
//! all connections finish at about the same time. They are taken from the front, because the hash is
//! computed in order.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

const MIB: u64 = 1024 * 1024;
/// Maximum number of connections per file.
pub(super) const STREAMS: u64 = 4;
/// Minimum size of a file for a second connection, in bytes.
pub(super) const RANGED: u64 = 4 * MIB;
/// Size of the first range if the size of the file is unknown, in bytes.
pub(super) const FIRST: u64 = 2 * MIB;
/// Minimum size of a range, in bytes; each request costs a round trip.
const SMALLEST: u64 = MIB;
/// Maximum size of a range, in bytes; the hash may have to read this much again.
const LARGEST: u64 = 64 * MIB;

/// The ranges of a file that are not requested yet.
#[derive(Default)]
pub(super) struct RangeScheduler(Mutex<Vec<Range<u64>>>);

impl RangeScheduler {
    /// Sets the missing ranges.
    pub fn begin(&self, gaps: Vec<Range<u64>>) {
        *self.open() = gaps;
    }

    /// Returns how many connections the remaining bytes justify.
    pub fn useful_connections(&self) -> u64 {
        bytes(&self.open()).div_ceil(SMALLEST)
    }

    /// Returns the next range to request.
    pub fn take(&self) -> Option<Range<u64>> {
        let mut open = self.open();
        let length = (bytes(&open) / (2 * STREAMS)).clamp(SMALLEST, LARGEST);
        let first = open.first_mut()?;
        let end = match first.start.saturating_add(length) {
            // A small remainder does not justify a request of its own.
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

    /// Returns a range that was taken and not received.
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
        let shares = RangeScheduler::default();
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

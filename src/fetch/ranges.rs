//! The set of byte ranges of a file that were received.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Byte ranges: sorted, not empty, not adjacent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub struct Ranges(Vec<Range<u64>>);

impl Ranges {
    /// Adds a range and joins it with adjacent or overlapping ones.
    pub fn insert(&mut self, mut new: Range<u64>) {
        if new.is_empty() {
            return;
        }
        let first = self.0.partition_point(|range| range.end < new.start);
        let after = self.0.partition_point(|range| range.start <= new.end);
        if let Some(touched) = self.0.get(first..after).filter(|t| !t.is_empty()) {
            new.start = new.start.min(touched[0].start);
            new.end = new.end.max(touched[touched.len() - 1].end);
        }
        self.0.splice(first..after, [new]);
    }

    /// Returns the total number of bytes.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    /// Returns the number of bytes from the start of the file to the first gap.
    pub fn front(&self) -> u64 {
        match self.0.first() {
            Some(range) if range.start == 0 => range.end,
            _ => 0,
        }
    }

    /// Returns the end of the last range.
    pub fn end(&self) -> u64 {
        self.0.last().map_or(0, |range| range.end)
    }

    /// Returns the missing ranges of a file of `total` bytes.
    pub fn gaps(&self, total: u64) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut at = 0;
        for range in &self.0 {
            if at < range.start.min(total) {
                gaps.push(at..range.start.min(total));
            }
            at = range.end;
        }
        if at < total {
            gaps.push(at..total);
        }
        gaps
    }
}

impl From<Ranges> for Vec<(u64, u64)> {
    fn from(ranges: Ranges) -> Self {
        ranges
            .0
            .iter()
            .map(|range| (range.start, range.end))
            .collect()
    }
}

impl TryFrom<Vec<(u64, u64)>> for Ranges {
    type Error = &'static str;

    fn try_from(pairs: Vec<(u64, u64)>) -> Result<Self, Self::Error> {
        let in_order = pairs.windows(2).all(|pair| pair[0].1 < pair[1].0);
        if !in_order || pairs.iter().any(|(start, end)| start >= end) {
            return Err("ranges that are empty, overlap or are not sorted");
        }
        Ok(Self(
            pairs.into_iter().map(|(start, end)| start..end).collect(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with a plain model: one flag per byte.
        #[test]
        fn they_say_the_same_as_a_flag_for_each_byte(
            stretches in prop::collection::vec((0u64..60, 0u64..20), 0..12),
            total in 0u64..80,
        ) {
            let mut flags = [false; 80];
            let mut ranges = Ranges::default();
            for (start, length) in stretches {
                ranges.insert(start..start + length);
                flags[start as usize..(start + length) as usize].fill(true);
            }
            let front = flags.iter().take_while(|there| **there).count() as u64;
            prop_assert_eq!(ranges.front(), front);
            prop_assert_eq!(ranges.bytes(), flags.iter().filter(|there| **there).count() as u64);
            let mut missing = [true; 80];
            missing[total as usize..].fill(false);
            for at in 0..total as usize {
                missing[at] = !flags[at];
            }
            let mut gaps = [false; 80];
            for gap in ranges.gaps(total) {
                gaps[gap.start as usize..gap.end as usize].fill(true);
            }
            prop_assert_eq!(gaps, missing);
            let pairs: Vec<(u64, u64)> = ranges.clone().into();
            prop_assert_eq!(Ranges::try_from(pairs), Ok(ranges));
        }
    }

    #[test]
    fn a_record_that_was_damaged_is_refused() {
        for text in [
            "[[5,5]]",
            "[[6,5]]",
            "[[0,4],[3,9]]",
            "[[0,4],[4,9]]",
            "[[9,12],[0,4]]",
            "[[-1,3]]",
        ] {
            assert!(serde_json::from_str::<Ranges>(text).is_err(), "{text}");
        }
    }
}

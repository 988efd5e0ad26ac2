//! How hard a bundle is compressed.

use std::fmt;
use std::str::FromStr;

/// A level of zstd's for what is not compressed already, from 1 (fast) to 19 (small).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(i32);

impl Level {
    /// For what is compressed already: little more than a look at each block.
    pub(super) const NONE: Self = Self(-50);
    /// The least work of those that people choose.
    pub const LEAST: Self = Self(1);
    /// What `zstd` itself takes where nothing is said.
    pub const FAST: Self = Self(3);
    /// Half of what `zstd -19` makes of the same, in less than one and a half times the time of `-9`
    /// (`tests/bench/bundle`).
    pub const DEFAULT: Self = Self(4);
    /// The last at which memory is no matter. A bundle's index has it, whatever the rest has.
    pub(super) const MODEST: Self = Self(9);
    const MOST: Self = Self(19);

    /// As zstd counts.
    pub(super) fn number(self) -> i32 {
        self.0
    }
}

impl Default for Level {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let level = text.parse().ok().map(Self);
        let level = level.filter(|level| (Self::LEAST..=Self::MOST).contains(level));
        level.ok_or_else(|| "wants a number from 1 (fast) to 19 (small)".to_owned())
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

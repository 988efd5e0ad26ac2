//! Compression levels of bundles.

use std::fmt;
use std::str::FromStr;

/// A zstd compression level for content that is not compressed yet, from 1 (fast) to 19 (small).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(i32);

impl Level {
    /// For content that is compressed already: zstd stores most blocks as they are.
    pub(super) const NONE: Self = Self(-50);
    /// The lowest level that a user can choose.
    pub const MIN: Self = Self(1);
    /// The default of the `zstd` program.
    pub const FAST: Self = Self(3);
    /// Half the size that `zstd -19` reaches, in less than 1.5 times the time of `zstd -9`
    /// (`tests/bench/bundle`).
    pub const DEFAULT: Self = Self(4);
    /// The highest level with moderate memory use. The header of every bundle is compressed with it.
    pub(super) const MEDIUM_MEMORY: Self = Self(9);
    const MAX: Self = Self(19);

    /// Returns the number that zstd uses.
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
        let level = level.filter(|level| (Self::MIN..=Self::MAX).contains(level));
        level.ok_or_else(|| "expected a number from 1 (fast) to 19 (small)".to_owned())
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

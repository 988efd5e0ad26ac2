//! The deflate of klauspost/compress, and Go's own deflate since Go 1.27, which is derived from it.
//!
//! An [`Era`] stands for all releases with the same output. The releases from 1.11.13 to 1.20.3 were
//! compared at every level on the same inputs.

mod blocks;
mod chains;
mod costs;
mod double;
mod double_paired;
mod fast;
mod history;
mod lazy;
mod paired;
mod parallel;
mod pgzip;
mod plain;
mod search;
mod single;
mod tokens;

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

use blocks::Blocks;
use fast::Fast;
use lazy::{Differences, Lazy};
pub(super) use parallel::ParallelEncoder;
pub use pgzip::BlockSize;
pub(super) use pgzip::PgzipEncoder;
use plain::Plain;

use crate::{GoLevel, UnknownEncoder};

/// The releases of klauspost/compress, or of Go, that produce the same bytes.
///
/// The name is the first release of the era, as in `pgzip-1.18.2:5:1048576`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Era {
    /// 1.15.11 to 1.17.11; levels 7 to 9 from 1.15.15 on.
    V1_15_11,
    /// 1.18.0 and 1.18.1. Differs from the era before at level 4 only.
    V1_18_0,
    /// 1.18.2 to 1.19.2.
    V1_18_2,
    /// 1.20.0 and later; compared up to 1.20.3. Differs from the era before at levels 7 to 9 of
    /// pgzip only.
    V1_20_0,
    /// Go's `compress/flate` from Go 1.27 on; compared up to Go 1.27.4. Differs from 1.20.0 at
    /// level 9 only.
    Go1_27,
}

impl Era {
    /// All eras, the oldest first.
    pub(super) const ALL: [Self; 5] = [
        Self::V1_15_11,
        Self::V1_18_0,
        Self::V1_18_2,
        Self::V1_20_0,
        Self::Go1_27,
    ];

    /// Returns the eras whose output differs at a level, the newest first. `parallel`: in the
    /// streams of pgzip.
    pub(super) fn distinct(level: GoLevel, parallel: bool) -> &'static [Self] {
        match level.number() {
            ..=0 => &[Self::V1_18_2],
            4 => &[Self::V1_18_2, Self::V1_15_11, Self::V1_18_0],
            7.. if parallel => &[Self::V1_20_0, Self::V1_18_2, Self::V1_15_11],
            _ => &[Self::V1_18_2, Self::V1_15_11],
        }
    }

    /// Returns whether the headers of blocks list all symbols, used or not.
    fn filled(self) -> bool {
        self <= Self::V1_18_0
    }

    fn differences(self) -> Differences {
        Differences {
            all_ahead: self.filled(),
            least_cost: u8::from(self == Self::Go1_27),
            begins_behind: self >= Self::V1_20_0,
        }
    }
}

/// Writes the era as in the names of encoders.
impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1_15_11 => "1.15.11",
            Self::V1_18_0 => "1.18.0",
            Self::V1_18_2 => "1.18.2",
            Self::V1_20_0 => "1.20.0",
            Self::Go1_27 => "1.27",
        })
    }
}

impl FromStr for Era {
    type Err = UnknownEncoder;

    fn from_str(text: &str) -> Result<Self, UnknownEncoder> {
        let mut all = Self::ALL.into_iter();
        all.find(|era| era.to_string() == text)
            .ok_or(UnknownEncoder)
    }
}

/// Compresses the content that is written to it.
pub(super) struct FlateEncoder<W> {
    blocks: Blocks<W>,
    level: Level,
}

/// The encoder of a level.
enum Level {
    Plain(Plain),
    Fast(Box<Fast>),
    Lazy(Box<Lazy>),
}

impl<W: Write> FlateEncoder<W> {
    pub(super) fn new(out: W, era: Era, level: GoLevel) -> Self {
        let number = level.number();
        let (level, penalty) = match number {
            0 => (Level::Plain(Plain::new(false)), 0),
            ..0 => (Level::Plain(Plain::new(true)), 10),
            1..=6 => {
                let fast = Fast::new(number, era >= Era::V1_18_0);
                (Level::Fast(Box::new(fast)), 7)
            }
            7.. => (
                Level::Lazy(Box::new(Lazy::new(number, era.differences()))),
                8,
            ),
        };
        Self {
            blocks: Blocks::new(out, era.filled(), penalty),
            level,
        }
    }

    /// Returns the writer that receives the output.
    pub(super) fn out(&mut self) -> &mut W {
        self.blocks.out()
    }

    pub(super) fn write(&mut self, data: &[u8]) -> io::Result<()> {
        match &mut self.level {
            Level::Plain(level) => level.write(&mut self.blocks, data),
            Level::Fast(level) => level.write(&mut self.blocks, data),
            Level::Lazy(level) => level.write(&mut self.blocks, data),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.level {
            Level::Plain(level) => level.flush(&mut self.blocks),
            Level::Fast(level) => level.flush(&mut self.blocks),
            Level::Lazy(level) => level.flush(&mut self.blocks),
        }
    }

    /// Writes all content so far and continues to the next whole byte.
    fn sync(&mut self) -> io::Result<()> {
        self.flush()?;
        self.blocks.sync()
    }

    /// Starts again after a [`Self::sync`], with a dictionary: bytes that count as written
    /// before.
    fn restart(&mut self, before: &[u8]) {
        match &mut self.level {
            Level::Plain(_) => {}
            Level::Fast(level) => level.restart(before),
            Level::Lazy(level) => level.restart(before),
        }
    }

    pub(super) fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        self.blocks.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Streams of gibibytes reduce all positions; a test cannot write so much.
    #[test]
    fn streams_may_be_longer_than_places_have_bits() -> io::Result<()> {
        let text: Vec<u8> = include_bytes!("../lib.rs").repeat(60);
        for number in 1..=9 {
            let level = GoLevel::new(number).unwrap_or(GoLevel::DEFAULT);
            let [mut short, mut long] =
                [(); 2].map(|()| FlateEncoder::new(Vec::new(), Era::V1_18_2, level));
            match &mut long.level {
                Level::Plain(_) => {}
                Level::Fast(fast) => fast.nearly_too_long(),
                Level::Lazy(lazy) => lazy.nearly_too_long(),
            }
            for part in text.chunks(50_000) {
                short.write(part)?;
                long.write(part)?;
            }
            assert!(short.finish()? == long.finish()?, "level {number}");
        }
        Ok(())
    }
}

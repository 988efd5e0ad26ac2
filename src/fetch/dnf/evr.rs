//! Ranges of versions of rpm packages.

use std::cmp::Ordering;
use std::fmt;

pub use kubexm_types::rpm_version::{Evr, compare};

/// The comparison of a range: `<`, `<=`, `=`, `>=`, `>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sense {
    less: bool,
    equal: bool,
    greater: bool,
}

impl Sense {
    /// Only the version itself.
    pub const EQUAL: Self = Self::new(false, true, false);

    const fn new(less: bool, equal: bool, greater: bool) -> Self {
        Self {
            less,
            equal,
            greater,
        }
    }

    /// Parses the flags of primary.xml, `LT` to `GT`, or the operators of rich dependencies.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "LT" | "<" => Self::new(true, false, false),
            "LE" | "<=" => Self::new(true, true, false),
            "EQ" | "=" | "==" => Self::EQUAL,
            "GE" | ">=" => Self::new(false, true, true),
            "GT" | ">" => Self::new(false, false, true),
            _ => return None,
        })
    }

    /// Returns the flag of primary.xml.
    pub fn word(self) -> &'static str {
        match (self.less, self.equal, self.greater) {
            (true, false, _) => "LT",
            (true, true, _) => "LE",
            (false, true, true) => "GE",
            (false, false, true) => "GT",
            (false, _, false) => "EQ",
        }
    }
}

/// A range of versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The comparison with `evr`.
    pub sense: Sense,
    /// The bound of the range.
    pub evr: Evr,
}

impl Range {
    /// Whether a version is in both ranges. A range with `=` and without a release contains every release
    /// of its version.
    pub fn overlaps(&self, other: &Self) -> bool {
        let (a, b) = (self.sense, other.sense);
        let order = match self.evr.compare_without_release(&other.evr) {
            Ordering::Equal => match (&self.evr.release, &other.evr.release) {
                (Some(ours), Some(theirs)) => compare(ours, theirs),
                (Some(_), None) if b.equal => return true,
                (None, Some(_)) if a.equal => return true,
                _ => Ordering::Equal,
            },
            order => order,
        };
        match order {
            Ordering::Less => a.greater || b.less,
            Ordering::Greater => a.less || b.greater,
            Ordering::Equal => {
                (a.equal && b.equal) || (a.less && b.less) || (a.greater && b.greater)
            }
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.sense.word() {
            "LT" => "<",
            "LE" => "<=",
            "GE" => ">=",
            "GT" => ">",
            _ => "=",
        };
        write!(f, "{sign} {}", self.evr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_release_takes_every_release() {
        let range = |sign, evr| Range {
            sense: Sense::parse(sign).unwrap(),
            evr: Evr::parse(evr),
        };
        let package = range("=", "1.2-3");
        for (sign, evr, fits) in [
            ("=", "1.2", true),
            (">=", "1.2", true),
            ("<=", "1.2", true),
            (">", "1.2", false),
            ("<", "1.2", false),
            ("<", "1.2-4", true),
            (">", "1:1.2", false),
            ("=", "1.2-4", false),
        ] {
            assert_eq!(range(sign, evr).overlaps(&package), fits, "{sign} {evr}");
            assert_eq!(package.overlaps(&range(sign, evr)), fits, "{sign} {evr}");
        }
    }
}

//! Versions of rpm packages: `[epoch:]version[-release]`, ordered as rpm orders them
//! (<https://rpm-software-management.github.io/rpm/man/rpm-version.7>).

use std::cmp::Ordering;
use std::fmt;

/// An epoch, a version and an optional release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evr {
    /// 0 if it is not given.
    pub epoch: u32,
    /// The upstream version.
    pub version: String,
    /// The distribution's release; ranges often omit it.
    pub release: Option<String>,
}

impl Evr {
    /// Parses `[epoch:]version[-release]`; an epoch that is not a number counts as 0.
    pub fn parse(text: &str) -> Self {
        let (epoch, rest) = match text.split_once(':') {
            Some((epoch, rest)) => (epoch.parse().unwrap_or(0), rest),
            None => (0, text),
        };
        let (version, release) = match rest.rsplit_once('-') {
            Some((version, release)) => (version, Some(release.to_owned())),
            None => (rest, None),
        };
        Self {
            epoch,
            version: version.to_owned(),
            release: release.filter(|release| !release.is_empty()),
        }
    }

    /// Compares epochs, versions and releases.
    pub fn compare(&self, other: &Self) -> Ordering {
        let release = |evr: &Self| evr.release.clone().unwrap_or_default();
        self.compare_without_release(other)
            .then_with(|| compare(&release(self), &release(other)))
    }

    /// Compares epochs and versions only.
    pub fn compare_without_release(&self, other: &Self) -> Ordering {
        let epochs = self.epoch.cmp(&other.epoch);
        epochs.then_with(|| compare(&self.version, &other.version))
    }
}

impl fmt::Display for Evr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.epoch > 0 {
            write!(f, "{}:", self.epoch)?;
        }
        f.write_str(&self.version)?;
        match &self.release {
            Some(release) => write!(f, "-{release}"),
            None => Ok(()),
        }
    }
}

/// Compares two versions or two releases by alternating runs of digits and of letters. Other characters only
/// separate runs. `~` sorts before everything, even the end; `^` sorts after the end and before the rest.
pub fn compare(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    loop {
        (a, b) = (skip_separators(a), skip_separators(b));
        match (a.first(), b.first()) {
            (Some(b'~'), Some(b'~')) | (Some(b'^'), Some(b'^')) => (a, b) = (&a[1..], &b[1..]),
            (Some(b'~'), _) => return Ordering::Less,
            (_, Some(b'~')) => return Ordering::Greater,
            (Some(b'^'), None) => return Ordering::Greater,
            (None, Some(b'^')) => return Ordering::Less,
            (Some(b'^'), Some(_)) => return Ordering::Less,
            (Some(_), Some(b'^')) => return Ordering::Greater,
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(x), Some(y)) => {
                let (left, right) = (x.is_ascii_digit(), y.is_ascii_digit());
                if left != right {
                    // Numbers are newer than letters.
                    return left.cmp(&right);
                }
                let (segment_a, rest_a) = segment(a, left);
                let (segment_b, rest_b) = segment(b, left);
                let order = if left {
                    number(segment_a, segment_b)
                } else {
                    segment_a.cmp(segment_b)
                };
                if order != Ordering::Equal {
                    return order;
                }
                (a, b) = (rest_a, rest_b);
            }
        }
    }
}

fn skip_separators(text: &[u8]) -> &[u8] {
    let is_significant = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'~' || *byte == b'^';
    &text[text.iter().position(is_significant).unwrap_or(text.len())..]
}

fn segment(text: &[u8], digits: bool) -> (&[u8], &[u8]) {
    let ends = |byte: &u8| {
        if digits {
            !byte.is_ascii_digit()
        } else {
            !byte.is_ascii_alphabetic()
        }
    };
    text.split_at(text.iter().position(ends).unwrap_or(text.len()))
}

/// Compares numbers of any length.
fn number(a: &[u8], b: &[u8]) -> Ordering {
    let trim = |digits: &[u8]| {
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        digits[zeros..].to_vec()
    };
    let (a, b) = (trim(a), trim(b));
    a.len().cmp(&b.len()).then_with(|| a.cmp(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_as_rpm_does() {
        for (less, more) in [
            ("1.0", "1.1"),
            ("1.9", "1.10"),
            ("1.0~rc1", "1.0"),
            ("1.0", "1.0^git1"),
            ("1.0^git1", "1.0.1"),
            ("1.0^git1~pre", "1.0^git1"),
            ("1.0a", "1.0.1"),
            ("a", "1"),
            ("1.0", "1.0a"),
        ] {
            assert_eq!(compare(less, more), Ordering::Less, "{less} < {more}");
            assert_eq!(compare(more, less), Ordering::Greater, "{more} > {less}");
        }
        for (a, b) in [
            ("1.0", "1_0"),
            ("1.001", "1.1"),
            ("1..0", "1.0"),
            ("ü1", "1"),
        ] {
            assert_eq!(compare(a, b), Ordering::Equal, "{a} = {b}");
        }
        assert_eq!(
            Evr::parse("1:1-1").compare(&Evr::parse("9-9")),
            Ordering::Greater
        );
    }

    #[test]
    fn epochs_and_releases_count() {
        let versions = [
            "0",
            "1.0~rc1-1",
            "1.0-1",
            "1.0^git1-1",
            "1.0.a-1",
            "1.0.1-1",
            "1.0.1-1.el9",
            "1.0.1-1.el9_2",
            "1.0.10-1",
            "1:0.1-1",
            "2:0.0-1",
        ];
        for pair in versions.windows(2) {
            let (less, more) = (Evr::parse(pair[0]), Evr::parse(pair[1]));
            assert_eq!(less.compare(&more), Ordering::Less, "{less} < {more}");
            assert_eq!(more.compare(&less), Ordering::Greater, "{more} > {less}");
            assert_eq!(less.compare(&less), Ordering::Equal);
        }
    }
}

//! Debian versions: `[epoch:]upstream[-revision]`, ordered as dpkg orders them
//! (<https://www.debian.org/doc/debian-policy/ch-controlfields.html#version>).

use std::cmp::Ordering;

/// Compares two version strings.
pub fn compare(a: &str, b: &str) -> Ordering {
    let (epoch_a, rest_a) = epoch(a);
    let (epoch_b, rest_b) = epoch(b);
    let (upstream_a, revision_a) = rest_a.rsplit_once('-').unwrap_or((rest_a, ""));
    let (upstream_b, revision_b) = rest_b.rsplit_once('-').unwrap_or((rest_b, ""));
    epoch_a
        .cmp(&epoch_b)
        .then_with(|| part(upstream_a, upstream_b))
        .then_with(|| part(revision_a, revision_b))
}

fn epoch(version: &str) -> (u64, &str) {
    match version.split_once(':') {
        Some((epoch, rest)) => (epoch.parse().unwrap_or(0), rest),
        None => (0, version),
    }
}

/// Compares alternating runs of other characters and of digits.
fn part(mut a: &str, mut b: &str) -> Ordering {
    while !a.is_empty() || !b.is_empty() {
        let (text_a, rest_a) = split(a, |c| !c.is_ascii_digit());
        let (text_b, rest_b) = split(b, |c| !c.is_ascii_digit());
        let (digits_a, next_a) = split(rest_a, |c| c.is_ascii_digit());
        let (digits_b, next_b) = split(rest_b, |c| c.is_ascii_digit());
        let order = letters(text_a, text_b).then_with(|| number(digits_a, digits_b));
        if order != Ordering::Equal {
            return order;
        }
        (a, b) = (next_a, next_b);
    }
    Ordering::Equal
}

fn split(text: &str, take: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !take(c)).unwrap_or(text.len()))
}

/// Compares characters: `~` sorts before everything, even the end, and letters sort before other characters.
fn letters(a: &str, b: &str) -> Ordering {
    let weight = |c: Option<char>| match c {
        Some('~') => -1,
        None => 0,
        Some(c) if c.is_ascii_alphabetic() => c as i64,
        Some(c) => c as i64 + 256,
    };
    let (mut a, mut b) = (a.chars(), b.chars());
    loop {
        let (x, y) = (a.next(), b.next());
        match weight(x).cmp(&weight(y)) {
            Ordering::Equal if x.is_none() && y.is_none() => return Ordering::Equal,
            Ordering::Equal => {}
            order => return order,
        }
    }
}

fn number(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_as_dpkg_does() {
        for (less, more) in [
            ("1.0", "1.1"),
            ("1.9", "1.10"),
            ("1.0~rc1", "1.0"),
            ("1.0", "1.0a"),
            ("1.0a", "1.0+b"),
            ("9.9", "1:0.1"),
            ("1.0-1", "1.0-2"),
            ("1.0-1~deb12u1", "1.0-1"),
            ("1.0", "1.0-1"),
        ] {
            assert_eq!(compare(less, more), Ordering::Less, "{less} < {more}");
            assert_eq!(compare(more, less), Ordering::Greater, "{more} > {less}");
        }
        assert_eq!(compare("1.00-0", "1.0"), Ordering::Equal);
    }
}

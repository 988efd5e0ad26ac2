//! Names of time zones.

use super::{InvalidValue, text_value};

/// The name of a time zone below `/usr/share/zoneinfo`, as in `Europe/Berlin` or `Etc/UTC`
/// (<https://data.iana.org/time-zones/theory.html#naming>).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeZone(String);

impl TimeZone {
    /// Parses a name of at most three parts of letters, digits, `_`, `-` and `+`.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let part = |part: &str| {
            let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'+');
            part.starts_with(|c: char| c.is_ascii_alphabetic()) && part.bytes().all(plain)
        };
        let fits = text.len() <= 64 && text.split('/').count() <= 3 && text.split('/').all(part);
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            let reason = "expected a name of the IANA database, as in Europe/Berlin or Etc/UTC";
            Err(InvalidValue::new("time zone", text, reason))
        }
    }
}

text_value!(TimeZone);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_zoneinfo() {
        for good in [
            "UTC",
            "Etc/GMT+5",
            "America/Argentina/Buenos_Aires",
            "Asia/Shanghai",
        ] {
            assert!(TimeZone::parse(good).is_ok(), "{good}");
        }
        for wrong in [
            "",
            "../../etc/shadow",
            "/etc/passwd",
            "A//B",
            "a b",
            "A\nB",
            "A/B/C/D",
        ] {
            assert!(TimeZone::parse(wrong).is_err(), "{wrong}");
        }
    }
}

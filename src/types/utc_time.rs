//! Times in UTC, as kubexm writes them to files and events.

use std::fmt;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{InvalidValue, string_value};

/// A time in UTC. Its text is that of RFC 3339, `2026-01-31T12:00:00Z`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UtcTime(OffsetDateTime);

impl UtcTime {
    /// Returns the current time, with fractions of a second.
    pub fn now() -> Self {
        Self(OffsetDateTime::now_utc())
    }

    /// Returns the time without fractions of a second.
    pub fn whole_seconds(self) -> Self {
        Self(self.0.replace_nanosecond(0).unwrap_or(self.0))
    }

    /// Returns the time for calculations.
    pub fn time(&self) -> OffsetDateTime {
        self.0
    }

    /// Parses a time in UTC. Fractions of a second are allowed.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let parsed = OffsetDateTime::parse(text, &Rfc3339).ok();
        let time = parsed.filter(|_| text.ends_with('Z')).map(Self);
        time.ok_or_else(|| {
            let expected = "expected a time in UTC, as in 2026-01-31T12:00:00Z";
            InvalidValue::new("time", text, expected)
        })
    }
}

impl fmt::Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // RFC 3339 ends with the year 9999, and so does the type of the time.
        f.write_str(&self.0.format(&Rfc3339).unwrap_or_default())
    }
}

string_value!(UtcTime);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn current_time_is_valid_with_and_without_fractions() {
        let now = UtcTime::now();
        assert_eq!(UtcTime::parse(&now.to_string()), Ok(now.clone()));
        let seconds = now.whole_seconds();
        assert_eq!(seconds.to_string().len(), "2026-01-31T12:00:00Z".len());
        assert_eq!(UtcTime::parse(&seconds.to_string()), Ok(seconds));
    }

    /// Records of earlier versions have these texts.
    #[test]
    fn text_stays_the_same_and_another_form_is_refused() {
        for text in ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.123456789Z"] {
            assert_eq!(UtcTime::parse(text).unwrap().to_string(), text);
        }
        for text in [
            "2026-01-31T12:00:00+01:00",
            "2026-02-31T12:00:00Z",
            "2026-01-31",
            "",
        ] {
            assert!(UtcTime::parse(text).is_err(), "{text}");
        }
    }
}

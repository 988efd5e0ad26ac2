//! Times in UTC, as kubexm writes them to files and events.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{InvalidValue, text_value};

/// A time as in RFC 3339, `2026-01-31T12:00:00Z`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UtcTime(String);

impl UtcTime {
    /// Returns the current time, with fractions of a second.
    pub fn now() -> Self {
        let now = OffsetDateTime::now_utc().format(&Rfc3339);
        // RFC 3339 ends with the year 9999, and so does the type of the time.
        Self(now.unwrap_or_else(|_| "9999-12-31T23:59:59Z".to_owned()))
    }

    /// Returns the time without fractions of a second.
    pub fn whole_seconds(self) -> Self {
        match self.0.split_once('.') {
            Some((seconds, _)) => Self(format!("{seconds}Z")),
            None => self,
        }
    }

    /// Parses a time in UTC. Fractions of a second are allowed.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let expected = |at: usize| match at {
            4 | 7 => Some(b'-'),
            10 => Some(b'T'),
            13 | 16 => Some(b':'),
            19 => Some(b'.'),
            _ => None,
        };
        let is_valid = text.strip_suffix('Z').is_some_and(|rest| {
            let mut bytes = rest.bytes().enumerate();
            (rest.len() == 19 || (21..=29).contains(&rest.len()))
                && bytes.all(|(at, byte)| match expected(at) {
                    Some(separator) => byte == separator,
                    None => byte.is_ascii_digit(),
                })
        });
        if is_valid {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidValue::new(
                "time",
                text,
                "expected a time in UTC, as in 2026-01-31T12:00:00Z",
            ))
        }
    }
}

text_value!(UtcTime);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn current_time_is_valid_with_and_without_fractions() {
        let now = UtcTime::now();
        assert_eq!(UtcTime::parse(now.as_str()), Ok(now.clone()));
        let seconds = now.whole_seconds();
        assert_eq!(seconds.as_str().len(), "2026-01-31T12:00:00Z".len());
        assert_eq!(UtcTime::parse(seconds.as_str()), Ok(seconds));
    }
}

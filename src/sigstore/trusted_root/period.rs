//! Periods of trust.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::document::PeriodDocument;
use crate::text::shown;

/// A period in seconds since 1970; both ends are included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Period {
    start: i64,
    end: i64,
}

impl Period {
    /// Converts the document of a period; a missing end is unlimited.
    ///
    /// # Errors
    /// An end is not a time in RFC 3339.
    pub(super) fn read(document: Option<&PeriodDocument>) -> Result<Self, String> {
        let start = document.and_then(|document| document.start.as_deref());
        let end = document.and_then(|document| document.end.as_deref());
        Ok(Self {
            start: start.map_or(Ok(i64::MIN), seconds)?,
            end: end.map_or(Ok(i64::MAX), seconds)?,
        })
    }

    /// Whether the time, in seconds since 1970, is in the period.
    pub fn contains(self, time: i64) -> bool {
        (self.start..=self.end).contains(&time)
    }
}

fn seconds(text: &str) -> Result<i64, String> {
    OffsetDateTime::parse(text, &Rfc3339)
        .map(OffsetDateTime::unix_timestamp)
        .map_err(|_| format!("has '{}', which is not a time in RFC 3339", shown(text)))
}

//! What the documents of both kinds have in common.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::Inventory;

/// When a document was made, and by whom. A document that shall be the same tomorrow says a time that
/// was given, or none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stamp(Option<OffsetDateTime>);

impl Stamp {
    /// Reads `SOURCE_DATE_EPOCH` (<https://reproducible-builds.org/specs/source-date-epoch/>).
    ///
    /// # Errors
    /// It is no number of seconds.
    pub fn of(seconds: Option<&str>) -> Result<Self, String> {
        let Some(seconds) = seconds.filter(|seconds| !seconds.is_empty()) else {
            return Ok(Self(None));
        };
        let number: Option<i64> = seconds.parse().ok();
        let time = number.and_then(|number| OffsetDateTime::from_unix_timestamp(number).ok());
        time.map(|time| Self(Some(time)))
            .ok_or_else(|| format!("SOURCE_DATE_EPOCH is '{seconds}'; it wants seconds since 1970"))
    }

    /// As both kinds of document write it.
    pub(super) fn text(self) -> Option<String> {
        self.0.and_then(|time| time.format(&Rfc3339).ok())
    }
}

/// An identifier that is the same for the same content: version 8 of RFC 9562.
pub fn uuid(inventory: &Inventory) -> String {
    let digits = inventory.lock.hex();
    format!(
        "{}-{}-8{}-a{}-{}",
        &digits[..8],
        &digits[8..12],
        &digits[12..15],
        &digits[15..18],
        &digits[18..30]
    )
}

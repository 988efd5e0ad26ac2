//! Values that SPDX and CycloneDX documents have in common.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::Inventory;

/// The time of a document. A reproducible document has the time of the user, or none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stamp(Option<OffsetDateTime>);

impl Stamp {
    /// Parses `SOURCE_DATE_EPOCH` (<https://reproducible-builds.org/specs/source-date-epoch/>).
    ///
    /// # Errors
    /// The value is not a number of seconds.
    pub fn parse(seconds: Option<&str>) -> Result<Self, String> {
        let Some(seconds) = seconds.filter(|seconds| !seconds.is_empty()) else {
            return Ok(Self(None));
        };
        let number: Option<i64> = seconds.parse().ok();
        let time = number.and_then(|number| OffsetDateTime::from_unix_timestamp(number).ok());
        time.map(|time| Self(Some(time)))
            .ok_or_else(|| {
                format!("SOURCE_DATE_EPOCH is '{seconds}', which is not a number of seconds since 1970\nhint: set it as in SOURCE_DATE_EPOCH=$(date +%s), or unset it")
            })
    }

    /// Returns the time in RFC 3339.
    pub(super) fn text(self) -> Option<String> {
        self.0.and_then(|time| time.format(&Rfc3339).ok())
    }
}

/// Returns a UUID of version 8 (RFC 9562) that depends only on the content.
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

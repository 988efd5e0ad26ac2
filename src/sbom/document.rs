//! Values that SPDX and CycloneDX documents have in common.

use kubexm_bundle::CreationTime;
use kubexm_types::Message;

use super::Inventory;

/// The time of a document. A reproducible document has the time of the user, or none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stamp(Option<CreationTime>);

impl Stamp {
    /// Parses `SOURCE_DATE_EPOCH` (<https://reproducible-builds.org/specs/source-date-epoch/>).
    ///
    /// # Errors
    /// The value is not a number of seconds.
    pub fn parse(seconds: Option<&str>) -> Result<Self, Message> {
        CreationTime::of_source_date_epoch(seconds).map(Self)
    }

    /// Returns the time in RFC 3339.
    pub(super) fn text(self) -> Option<String> {
        self.0.map(CreationTime::text)
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

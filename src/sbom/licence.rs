//! Licences as databases write them.

use spdx::{Expression, ParseMode};

/// What a database says of a licence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Licence<'a> {
    /// A valid expression of SPDX.
    Expression(&'a str),
    /// Some other text.
    Text(&'a str),
}

/// Tells expressions of SPDX from other texts
/// (<https://spdx.github.io/spdx-spec/v2.3/SPDX-license-expressions/>).
pub fn read(text: &str) -> Licence<'_> {
    // References to texts that the document would have to carry are no use without them.
    let refers = text.contains("LicenseRef-") || text.contains("DocumentRef-");
    match Expression::parse_mode(text, ParseMode::STRICT) {
        Ok(_) if !refers => Licence::Expression(text),
        _ => Licence::Text(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_spdx_knows_is_an_expression() {
        for good in ["MIT", "GPL-2.0-only AND (MIT OR Apache-2.0)", "0BSD"] {
            assert_eq!(read(good), Licence::Expression(good));
        }
        for other in [
            "GPLv2+",
            "Public Domain",
            "MIT BSD",
            "LicenseRef-Fedora",
            "",
        ] {
            assert_eq!(read(other), Licence::Text(other));
        }
    }
}

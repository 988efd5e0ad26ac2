//! Licences in package databases.

use spdx::{Expression, ParseMode};

/// A licence in a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Licence<'a> {
    /// A valid SPDX expression.
    Expression(&'a str),
    /// Another text.
    Text(&'a str),
}

/// Distinguishes SPDX expressions
/// (<https://spdx.github.io/spdx-spec/v2.3/SPDX-license-expressions/>) from other texts.
pub fn read(text: &str) -> Licence<'_> {
    // A reference to a text is not valid in a document without that text.
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

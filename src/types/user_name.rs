//! Names of users of hosts and registries.

use super::{InvalidValue, line, text_value};

/// The name of a user: 1 to 256 characters without spaces, control characters and `:`, which separates names from
/// passwords (RFC 7617, section 2). It does not begin with `-`, which begins options of commands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserName(String);

impl UserName {
    /// Parses a name.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let excluded = |c: char| line::is_hidden(c) || c.is_whitespace() || c == ':';
        if text.is_empty() || text.len() > 256 || text.starts_with('-') || text.contains(excluded) {
            let reason = "expected a name without spaces, control characters and ':'";
            return Err(InvalidValue::new("user name", text, reason));
        }
        Ok(Self(text.to_owned()))
    }
}

text_value!(UserName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_separators() {
        for good in ["root", "ops@site.example", "SITE\\ops", "robot$kubexm"] {
            assert!(UserName::parse(good).is_ok(), "{good}");
        }
        for wrong in ["", "a b", "a:b", "a\nb", "-l"] {
            assert!(UserName::parse(wrong).is_err(), "{wrong}");
        }
    }
}

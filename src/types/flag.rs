//! Flags and feature gates of programs.

use super::{InvalidValue, line, text_value};

/// The name of a flag without the leading dashes, as in `audit-log-maxage`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlagName(String);

/// The value of a flag: at most 4096 characters in one line. It may be empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlagValue(String);

/// The name of a feature gate, as in `NFTablesProxyMode`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeatureGate(String);

impl FlagName {
    /// Parses a name of letters, digits, `-`, `_` and `.` that begins with a letter.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let first = text.bytes().next();
        if first.is_some_and(|b| b.is_ascii_alphabetic())
            && text.len() <= 128
            && text.bytes().all(inner)
        {
            return Ok(Self(text.to_owned()));
        }
        let reason = if text.starts_with('-') {
            "expected a name without leading dashes"
        } else {
            "expected letters, digits, '-', '_' and '.', as in audit-log-maxage"
        };
        Err(InvalidValue::new("flag", text, reason))
    }
}

impl FlagValue {
    /// Parses a value.
    ///
    /// # Errors
    /// The text has several lines, control characters, or more than 4096 characters.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        line::check(text)
            .map(|()| Self(text.to_owned()))
            .map_err(|reason| InvalidValue::new("value", text, reason))
    }
}

impl FeatureGate {
    /// Parses a name of letters and digits that begins with a letter.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let first = text.bytes().next();
        if first.is_some_and(|b| b.is_ascii_alphabetic())
            && text.len() <= 128
            && text.bytes().all(|b| b.is_ascii_alphanumeric())
        {
            return Ok(Self(text.to_owned()));
        }
        let reason = "expected letters and digits, as in NFTablesProxyMode";
        Err(InvalidValue::new("feature gate", text, reason))
    }
}

text_value!(FlagName);
text_value!(FlagValue);
text_value!(FeatureGate);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_cannot_contain_another_one() {
        for good in ["v", "audit-log-maxage", "log_dir"] {
            assert!(FlagName::parse(good).is_ok(), "{good}");
        }
        for wrong in ["", "--v", "v=1", "a b", "a\nb", "1a"] {
            assert!(FlagName::parse(wrong).is_err(), "{wrong}");
        }
        for good in ["", "2", "a,b=c", "with spaces and \"quotes\" %n $x"] {
            assert!(FlagValue::parse(good).is_ok(), "{good}");
        }
        assert!(FlagValue::parse("2\nExecStartPre=/bin/sh").is_err());
        assert!(FeatureGate::parse("NFTablesProxyMode").is_ok());
        for wrong in ["", "A=true,B", "A B", "A-B"] {
            assert!(FeatureGate::parse(wrong).is_err(), "{wrong}");
        }
    }
}

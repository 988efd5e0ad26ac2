//! Keys and values of Kubernetes labels and taints
//! (<https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set>).

use super::{HostName, InvalidValue, text_value};

/// The key of a label or a taint: a name, with or without the prefix of a DNS name, as in `disk` or `example.org/disk`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelKey(String);

/// The value of a label or a taint. It may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelValue(String);

/// Returns true for at most 63 letters, digits, `-`, `_` and `.` that begin and end with a letter or a digit.
fn is_name(text: &str) -> bool {
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    bytes.len() <= 63 && bytes.iter().all(inner) && ends(bytes.first()) && ends(bytes.last())
}

impl LabelKey {
    /// Parses a key.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let (prefix, name) = match text.split_once('/') {
            Some((prefix, name)) => (Some(prefix), name),
            None => (None, text),
        };
        if is_name(name) && prefix.is_none_or(|prefix| HostName::parse(prefix).is_ok()) {
            return Ok(Self(text.to_owned()));
        }
        let reason =
            "expected at most 63 letters, digits, '-', '_' and '.', as in disk or example.org/disk";
        Err(InvalidValue::new("label key", text, reason))
    }

    /// Returns the part before the slash, if there is one.
    pub fn prefix(&self) -> Option<&str> {
        self.0.split_once('/').map(|(prefix, _)| prefix)
    }
}

impl LabelValue {
    /// Parses a value.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        if text.is_empty() || is_name(text) {
            return Ok(Self(text.to_owned()));
        }
        let reason = "expected at most 63 letters, digits, '-', '_' and '.', with a letter or a digit at both ends";
        Err(InvalidValue::new("label value", text, reason))
    }
}

text_value!(LabelKey);
text_value!(LabelValue);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_the_form_that_the_api_server_accepts() {
        for good in ["disk", "example.org/disk", "a.B_c-1"] {
            assert!(LabelKey::parse(good).is_ok(), "{good}");
        }
        let long = "a".repeat(64);
        for wrong in [
            "", "a b", "x,y", "a=b", "-a", "a.", "/a", "a/", "A.b/c", "a/b/c", "a\nb", &long,
        ] {
            assert!(LabelKey::parse(wrong).is_err(), "{wrong}");
        }
        for good in ["", "ssd", "1", "a.B_c-1"] {
            assert!(LabelValue::parse(good).is_ok(), "{good}");
        }
        for wrong in ["a b", "x,y", "a=b", "-a", "a/b", "a\nb", &long] {
            assert!(LabelValue::parse(wrong).is_err(), "{wrong}");
        }
    }
}

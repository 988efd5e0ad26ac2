//! Names of hooks.

use super::{InvalidValue, text_value};

/// The name of a hook. It is part of the names of files.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HookName(String);

impl HookName {
    /// Parses a name of 1 to 63 characters of `a-z`, `0-9` and inner `-`.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let fits = (1..=63).contains(&text.len()) && text.bytes().all(plain);
        if fits && !text.starts_with('-') && !text.ends_with('-') {
            return Ok(Self(text.to_owned()));
        }
        let reason = "expected at most 63 lower-case letters, digits and '-', as in mount-disks";
        Err(InvalidValue::new("name of a hook", text, reason))
    }
}

text_value!(HookName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parts_of_names_of_files() {
        assert!(HookName::parse("mount-disks-2").is_ok());
        for wrong in [
            "",
            "-a",
            "a-",
            "A",
            "a b",
            "a/b",
            "..",
            "a\nb",
            &"a".repeat(64),
        ] {
            assert!(HookName::parse(wrong).is_err(), "{wrong}");
        }
    }
}

//! Names of network interfaces.

use super::{InvalidValue, text_value};

/// The name of a network interface, as in `bond0`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceName(String);

impl InterfaceName {
    /// Parses a name of at most 15 letters, digits, `.`, `_` and `-` (`IFNAMSIZ` of the kernel).
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        let fits = (1..=15).contains(&text.len()) && text.bytes().all(plain);
        if fits && !text.starts_with('-') && !matches!(text, "." | "..") {
            return Ok(Self(text.to_owned()));
        }
        let reason = "expected a name that `ip link` shows, as in bond0";
        Err(InvalidValue::new("network interface", text, reason))
    }
}

text_value!(InterfaceName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_kernel() {
        for good in ["bond0", "eth0.100", "enp1s0f0np0", "vlan_7"] {
            assert_eq!(InterfaceName::parse(good).unwrap().as_str(), good);
        }
        for wrong in [
            "",
            ".",
            "..",
            "a/b",
            "a b",
            "a\nb",
            "-a",
            "a:1",
            &"a".repeat(16),
        ] {
            assert!(InterfaceName::parse(wrong).is_err(), "{wrong}");
        }
    }
}

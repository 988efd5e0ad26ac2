//! Names of kernel modules.

use super::{InvalidValue, text_value};

/// The name of a kernel module, with `_` in place of `-` as in `/sys/module`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelModule(String);

impl KernelModule {
    /// Parses a name of at most 55 letters, digits, `_` and `-` (`MODULE_NAME_LEN` of the kernel).
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        let fits = (1..=55).contains(&text.len()) && text.bytes().all(plain);
        if fits && !text.starts_with('-') {
            return Ok(Self(text.replace('-', "_")));
        }
        let reason = "expected the name of a kernel module, as in dm_crypt";
        Err(InvalidValue::new("kernel module", text, reason))
    }
}

text_value!(KernelModule);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_of_modprobe() {
        assert_eq!(
            KernelModule::parse("dm-crypt").unwrap().as_str(),
            "dm_crypt"
        );
        for wrong in ["", "-r", "a b", "a\nb", "../x", "a/b", &"a".repeat(56)] {
            assert!(KernelModule::parse(wrong).is_err(), "{wrong}");
        }
    }
}

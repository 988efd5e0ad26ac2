//! Versions of the GNU C library.

use std::fmt;

use super::{InvalidValue, string_value};

/// A version of glibc, such as `2.34`. Programs name it in the versions of their symbols, and
/// `getconf GNU_LIBC_VERSION` prints it. Updates of a distribution do not change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GlibcVersion {
    major: u16,
    minor: u16,
}

impl GlibcVersion {
    /// Parses two numbers with a dot. Further numbers, as in `2.2.5`, are accepted and have no effect.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let mut numbers = text.split('.').map(|part| match part.len() {
            1..=4 if part.bytes().all(|byte| byte.is_ascii_digit()) => part.parse().ok(),
            _ => None,
        });
        let version = (numbers.next().flatten(), numbers.next().flatten());
        match (version, numbers.all(|number| number.is_some())) {
            ((Some(major), Some(minor)), true) => Ok(Self { major, minor }),
            _ => Err(InvalidValue::new(
                "version of glibc",
                text,
                "expected two numbers, as in 2.34",
            )),
        }
    }

    /// Parses the version of a symbol, as in `GLIBC_2.34`. Returns `None` for `GLIBC_PRIVATE` and for other libraries.
    pub fn of_symbol(name: &str) -> Option<Self> {
        Self::parse(name.strip_prefix("GLIBC_")?).ok()
    }
}

impl fmt::Display for GlibcVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

string_value!(GlibcVersion);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let version = |text: &str| GlibcVersion::parse(text).unwrap();
        assert!(version("2.4") < version("2.34"));
        assert_eq!(version("2.2.5"), version("2.2"));
        assert_eq!(version("2.34").to_string(), "2.34");
        for wrong in ["", "2", "2.", ".2", "2.x", "-2.3", "2.34567", "2.3.x"] {
            assert!(GlibcVersion::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_symbols_of_glibc_have_a_version() {
        let symbol = |name| GlibcVersion::of_symbol(name).map(|version| version.to_string());
        assert_eq!(symbol("GLIBC_2.34").as_deref(), Some("2.34"));
        assert_eq!(symbol("GLIBC_PRIVATE"), None);
        assert_eq!(symbol("GCC_3.0"), None);
    }
}

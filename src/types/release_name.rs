//! Names of releases of Helm, of namespaces and of runtime classes: DNS labels (<https://www.rfc-editor.org/rfc/rfc1123#section-2.1>).

use super::{InvalidValue, text_value};

/// The name of a release of Helm. It has at most 53 characters, because Helm adds others to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReleaseName(String);

/// The name of a namespace of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(String);

/// The name of a runtime class of Kubernetes, and of its handler in a container runtime.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandlerName(String);

/// Returns true for 1 to `most` characters of `a-z`, `0-9` and inner `-`.
fn is_label(text: &str, most: usize) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=most).contains(&text.len())
        && text.bytes().all(plain)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

impl ReleaseName {
    /// Parses a name of 1 to 53 characters of `a-z`, `0-9` and inner `-`.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        if is_label(text, 53) {
            return Ok(Self(text.to_owned()));
        }
        let reason = "expected at most 53 lower-case letters, digits and '-', as in shop";
        Err(InvalidValue::new("name of an application", text, reason))
    }
}

impl Namespace {
    /// Parses a name of 1 to 63 characters of `a-z`, `0-9` and inner `-`.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        if is_label(text, 63) {
            return Ok(Self(text.to_owned()));
        }
        let reason = "expected at most 63 lower-case letters, digits and '-', as in shop";
        Err(InvalidValue::new("namespace", text, reason))
    }
}

impl HandlerName {
    /// Parses a name of 1 to 63 characters of `a-z`, `0-9` and inner `-`.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        if is_label(text, 63) {
            return Ok(Self(text.to_owned()));
        }
        let reason = "expected at most 63 lower-case letters, digits and '-', as in nvidia";
        Err(InvalidValue::new("name of a runtime class", text, reason))
    }
}

impl Default for Namespace {
    /// Returns `default`.
    fn default() -> Self {
        Self("default".to_owned())
    }
}

text_value!(ReleaseName);
text_value!(Namespace);
text_value!(HandlerName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_labels() {
        assert!(ReleaseName::parse("shop-2").is_ok());
        for wrong in ["", "-a", "a-", "A", "a b", "a/b", "..", "a.b", "a\nb"] {
            assert!(ReleaseName::parse(wrong).is_err(), "{wrong}");
            assert!(Namespace::parse(wrong).is_err(), "{wrong}");
        }
        assert!(ReleaseName::parse(&"a".repeat(54)).is_err());
        assert!(Namespace::parse(&"a".repeat(63)).is_ok());
        assert!(Namespace::parse(&"a".repeat(64)).is_err());
    }
}

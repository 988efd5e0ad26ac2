//! Host names that are valid names of Kubernetes nodes.

use super::{InvalidValue, text_value};

/// An RFC 1123 subdomain in lower case, as Kubernetes requires for names of nodes
/// (<https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-subdomain-names>).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

impl HostName {
    /// Parses a name of at most 253 characters, made of labels of `a-z`, `0-9` and inner `-`.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let label = |label: &str| {
            (1..=63).contains(&label.len())
                && label
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if text.len() <= 253 && text.split('.').all(label) {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidValue::new(
            "host name",
            text,
            "expected lower-case letters, digits, '-' and '.', as in node-1.example",
        ))
    }
}

text_value!(HostName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_nodes_are_accepted_and_invalid_dns_names_refused() {
        for good in ["node1", "node-1.bank.example", "1"] {
            assert!(HostName::parse(good).is_ok(), "{good}");
        }
        for wrong in [
            "",
            "Node1",
            "-a",
            "a-",
            "a..b",
            "a b",
            "a;reboot",
            &"a".repeat(64),
        ] {
            assert!(HostName::parse(wrong).is_err(), "{wrong}");
        }
    }
}

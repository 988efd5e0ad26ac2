//! The identity of a cluster: a random ID, with name and creation time for people.

use std::fmt;
use std::io;

use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

use super::{HostName, InvalidValue, UtcTime, string_value};

/// 128 random bits that identify a cluster. The text form is a version 4 UUID
/// (<https://www.rfc-editor.org/rfc/rfc9562#section-5.4>).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId([u8; 16]);

/// Positions of the hyphens in the text form.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

impl ClusterId {
    /// Returns a new ID.
    ///
    /// # Errors
    /// The operating system provides no random numbers.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0u8; 16];
        SystemRandom::new()
            .fill(&mut bytes)
            .map_err(|_| io::Error::other("the system provides no random numbers"))?;
        // Version and variant of the UUID.
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Ok(Self(bytes))
    }

    /// Parses 32 lower-case hexadecimal digits in groups of 8, 4, 4, 4 and 12.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let wrong = || {
            let expected = "expected a UUID, as in 0b7c4c4e-93a5-4cc7-8d83-3f3f6f0f9b11";
            InvalidValue::new("cluster ID", text, expected)
        };
        let is_valid = |(at, byte): (usize, u8)| {
            if HYPHENS.contains(&at) {
                byte == b'-'
            } else {
                matches!(byte, b'0'..=b'9' | b'a'..=b'f')
            }
        };
        if text.len() != 36 || !text.bytes().enumerate().all(is_valid) {
            return Err(wrong());
        }
        let mut bytes = [0u8; 16];
        hex::decode_to_slice(text.replace('-', ""), &mut bytes).map_err(|_| wrong())?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, digit) in hex::encode(self.0).chars().enumerate() {
            if [8, 12, 16, 20].contains(&at) {
                f.write_str("-")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

string_value!(ClusterId);

/// What a state directory and every host of a cluster record about the cluster.
///
/// Two clusters can have the same name. The ID alone decides whether two records mean the same cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterIdentity {
    /// The random ID.
    pub id: ClusterId,
    /// `metadata.name` of the cluster file.
    pub name: HostName,
    /// When kubexm created the ID.
    pub created: UtcTime,
}

impl ClusterIdentity {
    /// Parses the record of a host, one JSON object.
    ///
    /// # Errors
    /// The text is not such a record. The host may be hostile: the error quotes nothing of it.
    pub fn from_json(text: &str) -> Result<Self, InvalidValue> {
        serde_json::from_str(text).map_err(|_| {
            InvalidValue::new(
                "record of the cluster",
                "",
                "expected JSON with id, name and created",
            )
        })
    }

    /// Returns the record for hosts, one line of JSON.
    pub fn to_json(&self) -> String {
        let Self { id, name, created } = self;
        // None of the three can contain a character that JSON escapes.
        format!(r#"{{"id":"{id}","name":"{name}","created":"{created}"}}"#)
    }
}

impl fmt::Display for ClusterIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cluster '{}' (ID {})", self.name, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_survive_their_text_form() {
        let (first, second) = (ClusterId::random().unwrap(), ClusterId::random().unwrap());
        assert_ne!(first, second);
        let text = first.to_string();
        assert_eq!(ClusterId::parse(&text), Ok(first));
        assert_eq!(text.as_bytes()[14], b'4', "{text}");
        for wrong in [
            "",
            "0b7c4c4e93a54cc78d833f3f6f0f9b11",
            "0B7C4C4E-93A5-4CC7-8D83-3F3F6F0F9B11",
            "0b7c4c4e-93a5-4cc7-8d83-3f3f6f0f9b1",
            "0b7c4c4e-93a5-4cc7-8d83_3f3f6f0f9b11",
            "0b7c4c4e-93a5-4cc7-8d83-3f3f6f0f9b1é",
        ] {
            assert!(ClusterId::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn record_of_a_host_survives_its_text_form() {
        let identity = ClusterIdentity {
            id: ClusterId::random().unwrap(),
            name: "bank.example".parse().unwrap(),
            created: "2026-01-31T12:00:00.123456789Z".parse().unwrap(),
        };
        assert_eq!(
            ClusterIdentity::from_json(&identity.to_json()),
            Ok(identity)
        );
    }

    /// A host decides what its record contains, and errors print it.
    #[test]
    fn hostile_record_of_a_host_is_refused() {
        let record = |name: &str, created: &str| {
            let id = "0b7c4c4e-93a5-4cc7-8d83-3f3f6f0f9b11";
            serde_json::json!({"id": id, "name": name, "created": created}).to_string()
        };
        let time = "2026-01-31T12:00:00Z";
        assert!(ClusterIdentity::from_json(&record("a", time)).is_ok());
        for wrong in [
            String::new(),
            "{}".to_owned(),
            "[".repeat(1 << 20),
            record("a\u{1b}[2J", time),
            record("a", "2026-01-31T12:00:00"),
            record("a", "yesterday\u{1b}]0;x\u{7}"),
            record("a", "2026-01-31T12:00:00.Z"),
        ] {
            let error = ClusterIdentity::from_json(&wrong).unwrap_err().to_string();
            assert!(!error.contains('\u{1b}'), "{error}");
        }
    }
}

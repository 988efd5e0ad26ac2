//! What the signature of a bundle states about it: the trusted comment of minisign (`FORMAT.md`,
//! section 10). Bundles of the same content have the same bytes, so a bundle itself has no time.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use kubexm_types::{Digest, Message};

/// The beginning of every trusted comment that kubexm writes.
const PREFIX: &str = "kubexm bundle ";
/// Separates the fields. A bundle's name has no white space.
const SEPARATOR: &str = ", ";
/// 2^53 - 1, the maximum integer of I-JSON (RFC 7493, 2.2).
const LARGEST_SEQUENCE: u64 = (1 << 53) - 1;

/// The order of signed bundles: a bundle with a smaller number is older. At most 2^53 - 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u64")]
pub struct Sequence(u64);

impl TryFrom<u64> for Sequence {
    type Error = String;

    fn try_from(number: u64) -> Result<Self, String> {
        if number <= LARGEST_SEQUENCE {
            Ok(Self(number))
        } else {
            Err(format!(
                "sequence number {number}: the maximum is {LARGEST_SEQUENCE}"
            ))
        }
    }
}

impl FromStr for Sequence {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number: u64 = text
            .parse()
            .map_err(|_| format!("expected a number from 0 to {LARGEST_SEQUENCE}"))?;
        number.try_into()
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A time in whole seconds, UTC, from 1970 to 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CreationTime(OffsetDateTime);

impl CreationTime {
    /// Returns the current time.
    pub fn now() -> Self {
        let now = OffsetDateTime::now_utc();
        Self(now.replace_nanosecond(0).unwrap_or(now))
    }

    /// Parses `SOURCE_DATE_EPOCH` (<https://reproducible-builds.org/specs/source-date-epoch/>). Returns
    /// `None` if the variable is not set or is empty.
    ///
    /// # Errors
    /// The value is not a number of seconds.
    pub fn of_source_date_epoch(seconds: Option<&str>) -> Result<Option<Self>, Message> {
        let Some(seconds) = seconds.filter(|seconds| !seconds.is_empty()) else {
            return Ok(None);
        };
        let number = seconds.parse().ok().filter(|number| *number >= 0);
        let time = number.and_then(|number| OffsetDateTime::from_unix_timestamp(number).ok());
        time.map(|time| Some(Self(time))).ok_or_else(|| {
            Message::new(format!(
                "SOURCE_DATE_EPOCH is '{seconds}', which is not a number of seconds since 1970"
            ))
            .hint("set it as in SOURCE_DATE_EPOCH=$(date +%s), or unset it")
        })
    }

    /// Returns the time in RFC 3339.
    pub fn text(self) -> String {
        self.0.format(&Rfc3339).unwrap_or_default()
    }

    fn parse(text: &str) -> Option<Self> {
        let time = OffsetDateTime::parse(text, &Rfc3339).ok().map(Self)?;
        let is_whole = time.0.nanosecond() == 0 && time.0.unix_timestamp() >= 0;
        (is_whole && time.text() == text).then_some(time)
    }

    fn seconds(self) -> u64 {
        u64::try_from(self.0.unix_timestamp()).unwrap_or_default()
    }
}

impl fmt::Display for CreationTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl Serialize for CreationTime {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.text())
    }
}

impl<'de> Deserialize<'de> for CreationTime {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| {
            D::Error::custom(format!(
                "expected a time in whole seconds and UTC, found '{text}'"
            ))
        })
    }
}

/// When a signed bundle was created, and its place in the order of the signer's bundles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revision {
    /// When the signature was made, or `SOURCE_DATE_EPOCH`.
    pub created: CreationTime,
    /// Compared by an install.
    pub sequence: Sequence,
}

impl Revision {
    /// Returns the revision of a new signature. Without a sequence number it is the number of seconds from
    /// 1970 to the creation time.
    pub fn new(created: CreationTime, sequence: Option<Sequence>) -> Self {
        Self {
            created,
            sequence: sequence.unwrap_or(Sequence(created.seconds())),
        }
    }
}

/// The statement of a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The name of the bundle.
    pub name: String,
    /// The digest of the lock.
    pub lock: Digest,
    /// `None` in the signatures of earlier versions.
    pub revision: Option<Revision>,
}

impl Statement {
    /// Parses a trusted comment. Returns `None` for a comment of another program.
    ///
    /// # Errors
    /// The comment begins like one of kubexm and has another form; the text is the rest of a sentence about
    /// the bundle.
    pub fn parse(comment: &str) -> Result<Option<Self>, Message> {
        let Some(fields) = comment.strip_prefix(PREFIX) else {
            return Ok(None);
        };
        let parsed = Self::of_fields(fields).filter(|statement| statement.to_string() == comment);
        parsed.map(Some).ok_or_else(|| {
            let shown: String = comment
                .chars()
                .take(200)
                .flat_map(char::escape_default)
                .collect();
            Message::new(format!(
                "its signature states '{shown}', which this kubexm cannot read"
            ))
            .hint("use the kubexm that signed the bundle, or a newer one")
        })
    }

    fn of_fields(fields: &str) -> Option<Self> {
        let mut fields = fields.split(SEPARATOR);
        let name = fields.next()?.to_owned();
        let lock = fields.next()?.strip_prefix("lock ")?.parse().ok()?;
        let revision = match (fields.next(), fields.next(), fields.next()) {
            (None, ..) => None,
            (Some(created), Some(sequence), None) => Some(Revision {
                created: CreationTime::parse(created.strip_prefix("created ")?)?,
                sequence: sequence.strip_prefix("sequence ")?.parse().ok()?,
            }),
            _ => return None,
        };
        Some(Self {
            name,
            lock,
            revision,
        })
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}{SEPARATOR}lock {}", self.name, self.lock)?;
        if let Some(Revision { created, sequence }) = &self.revision {
            write!(
                f,
                "{SEPARATOR}created {created}{SEPARATOR}sequence {sequence}"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(epoch: &str, sequence: Option<&str>) -> Statement {
        let created = CreationTime::of_source_date_epoch(Some(epoch)).unwrap();
        Statement {
            name: "kubernetes,lock".to_owned(),
            lock: Digest::of(b"lock"),
            revision: Some(Revision::new(
                created.unwrap(),
                sequence.map(|number| number.parse().unwrap()),
            )),
        }
    }

    #[test]
    fn trusted_comment_has_name_lock_time_and_sequence() {
        let lock = Digest::of(b"lock");
        let text = statement("1767323045", None).to_string();
        assert_eq!(
            text,
            format!(
                "kubexm bundle kubernetes,lock, lock {lock}, created 2026-01-02T03:04:05Z, sequence 1767323045"
            )
        );
        for statement in [
            statement("0", None),
            statement("1767323045", Some("7")),
            statement("1767323045", Some("9007199254740991")),
        ] {
            let read = Statement::parse(&statement.to_string()).unwrap();
            assert_eq!(read, Some(statement));
        }
    }

    #[test]
    fn trusted_comment_of_an_earlier_version_has_no_sequence() {
        let comment = format!("kubexm bundle example, lock {}", Digest::of(b"lock"));
        let read = Statement::parse(&comment).unwrap().unwrap();
        assert_eq!((read.name.as_str(), read.revision), ("example", None));
        assert_eq!(Statement::parse("timestamp:1\tfile:index.json"), Ok(None));
    }

    #[test]
    fn trusted_comment_of_another_form_is_refused() {
        let lock = Digest::of(b"lock");
        for rest in [
            String::new(),
            "example".to_owned(),
            format!("example, lock {lock}, sequence 1"),
            format!("example, lock {lock}, created 2026-01-02T03:04:05Z"),
            format!("example, lock {lock}, created 2026-01-02T03:04:05Z, sequence -1"),
            format!("example, lock {lock}, created 2026-01-02T03:04:05Z, sequence 01"),
            format!(
                "example, lock {lock}, created 2026-01-02T03:04:05Z, sequence 9007199254740992"
            ),
            format!("example, lock {lock}, created 2026-01-02T03:04:05+00:00, sequence 1"),
            format!("example, lock {lock}, created 1969-01-02T03:04:05Z, sequence 1"),
            format!("example, lock {lock}, created 2026-01-02T03:04:05.5Z, sequence 1"),
            format!(
                "example, lock {lock}, created 2026-01-02T03:04:05Z, sequence 1, expires never"
            ),
        ] {
            let comment = format!("{PREFIX}{rest}");
            assert!(Statement::parse(&comment).is_err(), "{comment}");
        }
    }

    #[test]
    fn source_date_epoch_is_a_number_of_seconds() {
        let parse = |text| CreationTime::of_source_date_epoch(text);
        assert_eq!(parse(None), Ok(None));
        assert_eq!(parse(Some("")), Ok(None));
        for wrong in ["-1", "yesterday", "1e9", "99999999999999999"] {
            assert!(parse(Some(wrong)).is_err(), "{wrong}");
        }
    }
}

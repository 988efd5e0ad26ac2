//! Why a keyring or a signature is not accepted.

use std::path::PathBuf;

use kubexm_types::Message;
use pgp::types::KeyId;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// An error of a keyring or of a signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenPgpError {
    /// A keyring file cannot be read or has no key.
    #[error(
        "cannot read the keyring {}: {cause}", .path.display()
    )]
    Keyring { path: PathBuf, cause: String },
    /// The bytes are not a signature or not a signed message.
    #[error("cannot read the OpenPGP signature: {0}")]
    Unreadable(String),
    /// The signatures are by keys that the keyring does not have.
    #[error(
        "cannot verify the signature with {keyring}: {}", by(.signers)
    )]
    OtherKey {
        /// The keyring files.
        keyring: String,
        /// The key IDs that the signatures name.
        signers: Vec<String>,
    },
    /// The signatures by keys of the keyring are not accepted.
    #[error(
        "cannot verify the signature with {keyring}: {}", all(.refused)
    )]
    Refused {
        /// The keyring files.
        keyring: String,
        /// One cause for each signature and key.
        refused: Vec<Refused>,
    },
}

impl From<&OpenPgpError> for Message {
    fn from(error: &OpenPgpError) -> Self {
        let hint = match error {
            OpenPgpError::Keyring { .. } => {
                "take the file from the distribution's medium, its keyring package or an installed host; \
                 `gpg --export KEY` writes one"
            }
            OpenPgpError::Unreadable(_) => "a mirror may serve another page; try another mirror",
            OpenPgpError::OtherKey { .. } => {
                "get the publisher's key from a trusted place and add its file to signedBy; else the content may \
                 have been changed"
            }
            OpenPgpError::Refused { refused, .. } => hint(refused),
        };
        Self::new(error.to_string()).hint(hint)
    }
}

/// A key whose signature is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("key {key}: {cause}")]
pub struct Refused {
    /// The key ID in hexadecimal.
    pub key: String,
    pub cause: Refusal,
}

/// Why a signature is not accepted. Times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The signature is of other content, or the key did not make it.
    #[error("the signature does not match the content")]
    Mismatch,
    /// The signature is not of a document, or has no time.
    #[error("the signature is not a signature of a document with a creation time")]
    NotOfDocument,
    /// Collisions of the digest can be computed.
    #[error("the signature uses {0}, for which collisions can be computed")]
    WeakDigest(String),
    #[error("the signature expired at {}", time(*.at))]
    SignatureExpired { at: u64 },
    #[error("the signature was made at {}, which is in the future", time(*.made))]
    InFuture { made: u64 },
    #[error("the signature was made at {}, before the key was created at {}", time(*.made), time(*.created))]
    BeforeKey { made: u64, created: u64 },
    #[error("the key expired at {}, before the signature was made at {}", time(*.at), time(*.made))]
    ExpiredAtSigning { at: u64, made: u64 },
    #[error("the key expired at {}", time(*.at))]
    Expired { at: u64 },
    #[error("the key is revoked")]
    Revoked,
    #[error("the key has no valid self-signature")]
    NotSelfSigned,
    #[error("the subkey has no valid binding signature of its primary key {0}")]
    NotBound(String),
    #[error("the subkey has no valid back signature over its primary key {0}")]
    NoBackSignature(String),
    #[error("the key does not have the key flag for signing")]
    NotForSigning,
    #[error("the key has a version before 4")]
    OldVersion,
}

impl Refusal {
    fn hint(&self) -> &'static str {
        match self {
            Self::Mismatch | Self::NotOfDocument => {
                "the content may have been changed, or a mirror serves files of two publications; try again \
                 later or another mirror"
            }
            Self::WeakDigest(_) => "ask the publisher for a signature with SHA-256 or SHA-512",
            Self::SignatureExpired { .. } => "the mirror is stale; try another mirror",
            Self::InFuture { .. } => "check the clock of this machine",
            Self::Expired { .. } => {
                "get the publisher's current key, which may have a later expiry, and replace the file in \
                 signedBy"
            }
            Self::Revoked => {
                "do not trust this signature; ask the publisher which key replaces the revoked one"
            }
            Self::BeforeKey { .. }
            | Self::ExpiredAtSigning { .. }
            | Self::NotSelfSigned
            | Self::NotBound(_)
            | Self::NoBackSignature(_)
            | Self::NotForSigning
            | Self::OldVersion => {
                "get the publisher's current key from a trusted place and replace the file in signedBy"
            }
        }
    }
}

/// Formats a key ID as GnuPG does.
pub(super) fn shown(id: &KeyId) -> String {
    id.to_string().to_uppercase()
}

fn by(signers: &[String]) -> String {
    match signers {
        [] => "it is not by a key of the keyring".to_owned(),
        signers => format!(
            "it is by key {}, which the keyring does not have",
            signers.join(", ")
        ),
    }
}

fn all(refused: &[Refused]) -> String {
    match refused {
        [one] => one.to_string(),
        many => many.iter().map(|one| format!("\n  {one}")).collect(),
    }
}

fn hint(refused: &[Refused]) -> &'static str {
    refused.first().map_or("", |refused| refused.cause.hint())
}

/// Formats a time in seconds since 1970 as RFC 3339 in UTC.
fn time(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok();
    let time = time.and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    let text = time.and_then(|time| time.format(&Rfc3339).ok());
    text.unwrap_or_else(|| seconds.to_string())
}

//! Append-only logs of signatures and of certificates.

use super::document::{LogDocument, decode};
use super::period::Period;
use kubexm_types::{Digest, VerifyingKey};

/// A trusted log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Log {
    /// The log's ID in entries. It is SHA-256 of the key, or, since Rekor's version 2, the key ID of
    /// checkpoints, which differs from it for keys other than ECDSA.
    pub id: Digest,
    pub key: VerifyingKey,
    /// When the log is trusted.
    pub period: Period,
}

impl Log {
    /// Converts the document of a log; returns `None` if the type of its key is not supported.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn read(document: &LogDocument) -> Result<Option<Self>, String> {
        let der = decode(&document.public_key.raw_bytes)?;
        let period = document.public_key.valid_for.as_ref();
        if period.is_some_and(|period| period.start.is_none()) {
            return Err("has a log without a start of its validity".to_owned());
        }
        let period = Period::read(period)?;
        let id = document.log_id.as_ref();
        let id = id.map(|id| decode(&id.key_id)).transpose()?;
        let id = id.and_then(|id| Some(Digest::from_bytes(id.try_into().ok()?)));
        let log = VerifyingKey::from_der(&der).ok().map(|key| Self {
            id: id.unwrap_or_else(|| key.fingerprint()),
            key,
            period,
        });
        Ok(log)
    }
}

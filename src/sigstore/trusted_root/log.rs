//! A log that only ever grows, of signatures or of certificates.

use super::document::{LogDocument, decode};
use super::period::Period;
use kubexm_types::{Digest, VerifyingKey};

/// A log that is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Log {
    /// What its entries call it by: SHA-256 of its key, and since Rekor's version 2 the key's id in
    /// checkpoints, which is another one where the key is none of ECDSA.
    pub id: Digest,
    /// Its key.
    pub key: VerifyingKey,
    /// When it is trusted.
    pub period: Period,
}

impl Log {
    /// Reads a log; none where its key is of a kind that is not taken.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn read(document: &LogDocument) -> Result<Option<Self>, String> {
        let der = decode(&document.public_key.raw_bytes)?;
        let period = document.public_key.valid_for.as_ref();
        if period.is_some_and(|period| period.start.is_none()) {
            return Err("does not say since when a log is trusted".to_owned());
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

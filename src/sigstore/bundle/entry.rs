//! A transparency log entry in a bundle
//! (<https://github.com/sigstore/protobuf-specs/blob/main/protos/sigstore_rekor.proto>). It has an inclusion
//! promise with a time, an inclusion proof, or both. Logs of Rekor's version 2 issue only proofs, which
//! have no time (<https://github.com/sigstore/rekor-tiles/blob/main/CLIENTS.md#signed-rfc-3161-timestamps>).

use crate::cause::Cause;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::document::{Bytes, Number};
use crate::tree;
use crate::tree::digest;
use crate::trusted_root::{Log, TrustedRoot};
use kubexm_types::Digest;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EntryDocument {
    /// Protobuf omits zeros.
    #[serde(default = "zero")]
    log_index: Number,
    log_id: LogId,
    integrated_time: Option<Number>,
    inclusion_promise: Option<PromiseDocument>,
    inclusion_proof: Option<ProofDocument>,
    canonicalized_body: Bytes,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogId {
    key_id: Bytes,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromiseDocument {
    signed_entry_timestamp: Bytes,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProofDocument {
    /// Protobuf omits zeros.
    #[serde(default = "zero")]
    log_index: Number,
    root_hash: Bytes,
    tree_size: Number,
    #[serde(default)]
    hashes: Vec<Bytes>,
    checkpoint: Option<CheckpointDocument>,
}

#[derive(Debug, Deserialize)]
struct CheckpointDocument {
    envelope: String,
}

fn zero() -> Number {
    Number(0)
}

/// A log entry with a promise, a proof or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    log: Digest,
    /// The entry's index across all shards of the log.
    number: i64,
    body: Vec<u8>,
    /// At least one of promise and proof is set.
    promise: Option<Promise>,
    proof: Option<Proof>,
}

/// The log's signed promise to include the entry.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Promise {
    /// When the log integrated the entry, in seconds since 1970.
    time: i64,
    signature: Vec<u8>,
}

/// The proof that the log includes the entry.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Proof {
    /// The entry's index in its shard of the log.
    number: u64,
    size: u64,
    root: Digest,
    beside: Vec<Digest>,
    /// Bundles of version 0.1 may not have one. The promise then proves that the entry is in the log.
    checkpoint: Option<String>,
}

impl EntryDocument {
    /// Converts the document to an entry. Bundles since version 0.2 require a proof (`wants_proof`).
    ///
    /// # Errors
    /// A part is missing or cannot be read.
    pub fn entry(&self, wants_proof: bool) -> Result<Entry, String> {
        let promise = self.inclusion_promise.as_ref();
        let promise = promise.map(|promise| self.promise(promise)).transpose()?;
        let proof = self.inclusion_proof.as_ref();
        if (wants_proof || promise.is_none()) && proof.is_none() {
            return Err("has a log entry without an inclusion proof".to_owned());
        }
        let has_checkpoint = proof.is_none_or(|proof| proof.checkpoint.is_some());
        if (wants_proof || promise.is_none()) && !has_checkpoint {
            return Err("has an inclusion proof without a checkpoint".to_owned());
        }
        if self.log_index.0 < 0 {
            return Err("has a log entry with a negative index".to_owned());
        }
        Ok(Entry {
            log: digest(&self.log_id.key_id.0).ok_or("has a log entry without a log ID")?,
            number: self.log_index.0,
            body: self.canonicalized_body.0.clone(),
            promise,
            proof: proof.map(ProofDocument::proof).transpose()?,
        })
    }

    fn promise(&self, promise: &PromiseDocument) -> Result<Promise, String> {
        // Without a promise, this time is not signed.
        let time = self.integrated_time.filter(|time| time.0 != 0);
        let time = time.ok_or("has a log entry with an inclusion promise but without a time")?;
        Ok(Promise {
            time: time.0,
            signature: promise.signed_entry_timestamp.0.clone(),
        })
    }
}

impl ProofDocument {
    fn proof(&self) -> Result<Proof, String> {
        let unreadable = "has an inclusion proof that cannot be read";
        let hashes = self.hashes.iter().map(|hash| digest(&hash.0));
        Ok(Proof {
            number: u64::try_from(self.log_index.0).map_err(|_| unreadable)?,
            size: u64::try_from(self.tree_size.0).map_err(|_| unreadable)?,
            root: digest(&self.root_hash.0).ok_or(unreadable)?,
            beside: hashes.collect::<Option<_>>().ok_or(unreadable)?,
            checkpoint: self.checkpoint.as_ref().map(|note| note.envelope.clone()),
        })
    }
}

impl Entry {
    /// Creates an entry with an inclusion promise and without a proof. `time` is in seconds since 1970.
    pub fn promised(
        log: Digest,
        number: i64,
        body: Vec<u8>,
        time: i64,
        signature: Vec<u8>,
    ) -> Self {
        Self {
            log,
            number,
            body,
            promise: Some(Promise { time, signature }),
            proof: None,
        }
    }

    /// Returns when the log integrated the entry, in seconds since 1970, or `None` without a promise.
    /// Trustworthy only if `must_hold` succeeds.
    pub fn time(&self) -> Option<i64> {
        self.promise.as_ref().map(|promise| promise.time)
    }

    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Returns the entry's log, if it was trusted at all these times, in seconds since 1970.
    ///
    /// # Errors
    /// The log is unknown, or was not trusted at one of the times.
    pub fn log<'a>(&self, root: &'a TrustedRoot, times: &[i64]) -> Result<&'a Log, Cause> {
        root.log(&self.log, times)
    }

    /// Verifies the promise and the proof, as far as the entry has them.
    ///
    /// # Errors
    /// One of them is not valid.
    pub fn must_hold(&self, log: &Log) -> Result<(), String> {
        if let Some(promise) = &self.promise {
            let signed = self.promised_bytes(promise);
            if !log.key.verifies(signed.as_bytes(), &promise.signature) {
                return Err("its log entry is not signed by that log".to_owned());
            }
        }
        match &self.proof {
            Some(proof) => proof.must_hold(&self.body, log),
            None => Ok(()),
        }
    }

    /// Returns the bytes that the log signed for a promise (RFC 8785: sorted names, no white space).
    fn promised_bytes(&self, promise: &Promise) -> String {
        let body = STANDARD.encode(&self.body);
        let (time, number, log) = (promise.time, self.number, self.log.hex());
        format!(
            r#"{{"body":"{body}","integratedTime":{time},"logID":"{log}","logIndex":{number}}}"#
        )
    }
}

impl Proof {
    fn must_hold(&self, body: &[u8], log: &Log) -> Result<(), String> {
        if let Some(checkpoint) = &self.checkpoint {
            let checkpoint = tree::checkpoint(checkpoint, log)?;
            if (checkpoint.size, checkpoint.root) != (self.size, self.root) {
                return Err(
                    "the checkpoint of its entry does not match the inclusion proof".to_owned(),
                );
            }
        }
        let root = tree::root(body, self.number, self.size, &self.beside);
        if root == Some(self.root) {
            Ok(())
        } else {
            Err("its entry is not in the log".to_owned())
        }
    }
}

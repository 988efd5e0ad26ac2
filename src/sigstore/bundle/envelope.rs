//! What is signed where it is more than bytes: a statement in an envelope that says what it is
//! (<https://github.com/secure-systems-lab/dsse/blob/master/protocol.md>,
//! <https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md>).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::document::{Bytes, signature};
use crate::shown;
use kubexm_types::Digest;

/// Media type of a statement.
const STATEMENT: &str = "application/vnd.in-toto+json";
/// Types of statements; the first is of in-toto before its version 1.
const STATEMENTS: [&str; 2] = [
    "https://in-toto.io/Statement/v0.1",
    "https://in-toto.io/Statement/v1",
];
/// What a statement says that is a signature and nothing more
/// (<https://github.com/sigstore/cosign/blob/main/specs/BUNDLE_SPEC.md>).
const SIGNED: &str = "https://sigstore.dev/cosign/sign/v1";
/// Things that a statement speaks of, as other readers take them.
const MOST_SUBJECTS: usize = 1024;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Envelope {
    payload: Bytes,
    payload_type: String,
    signatures: Vec<Signature>,
}

#[derive(Debug, Deserialize)]
struct Signature {
    sig: Bytes,
}

/// What an envelope holds.
pub(super) struct Opened {
    /// What its one signature is of.
    pub signed: Vec<u8>,
    /// What is in it.
    pub payload: Vec<u8>,
    /// The signature.
    pub signature: Vec<u8>,
}

impl Envelope {
    /// Opens it.
    ///
    /// # Errors
    /// It holds something else than a statement, or has another number of signatures.
    pub fn open(self) -> Result<Opened, String> {
        if self.payload_type != STATEMENT {
            return Err(format!(
                "has an envelope with a '{}', no statement about an image",
                shown(&self.payload_type)
            ));
        }
        let Ok([one]) = <[Signature; 1]>::try_from(self.signatures) else {
            return Err("has an envelope that is not signed just once".to_owned());
        };
        let payload = self.payload.0;
        Ok(Opened {
            signed: signed(&self.payload_type, &payload),
            payload,
            signature: signature(one.sig)?,
        })
    }
}

/// What is signed of an envelope: its type and its content, each with its length, so that neither passes
/// for a part of the other.
fn signed(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let kind = payload_type.len();
    let head = format!("DSSEv1 {kind} {payload_type} {} ", payload.len());
    [head.as_bytes(), payload].concat()
}

/// What somebody says of something.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<Subject>,
    predicate_type: String,
}

#[derive(Debug, Deserialize)]
struct Subject {
    #[serde(default)]
    digest: BTreeMap<String, String>,
}

impl Statement {
    /// Reads a statement.
    ///
    /// # Errors
    /// It is none.
    pub fn read(payload: &[u8]) -> Result<Self, String> {
        let statement: Self = serde_json::from_slice(payload).map_err(|error| {
            let words = shown(&error.to_string());
            format!("what is signed cannot be read: {words}")
        })?;
        match STATEMENTS.contains(&statement.kind.as_str()) {
            true => Ok(statement),
            false => Err(format!(
                "what is signed is a '{}', no statement",
                shown(&statement.kind)
            )),
        }
    }

    /// Whether it says no more than that somebody signed.
    pub fn is_signature(&self) -> bool {
        self.predicate_type == SIGNED
    }

    /// Whether it is a signature of the image.
    ///
    /// # Errors
    /// It says something else, or of another image.
    pub fn must_be_of(&self, image: &Digest) -> Result<(), String> {
        if !self.is_signature() {
            return Err(format!(
                "it says '{}' of an image, which is no signature",
                shown(&self.predicate_type)
            ));
        }
        if self.subject.len() > MOST_SUBJECTS {
            return Err(format!(
                "it is a signature of more than {MOST_SUBJECTS} things"
            ));
        }
        let digests = self
            .subject
            .iter()
            .map(|subject| subject.digest.get("sha256"));
        let digests: Vec<&String> = digests.flatten().collect();
        if digests.iter().any(|digest| **digest == image.hex()) {
            return Ok(());
        }
        Err(match digests.first() {
            Some(first) => format!("it is a signature of sha256:{}", shown(first)),
            None => "it is a signature of nothing".to_owned(),
        })
    }
}

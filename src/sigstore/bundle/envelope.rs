//! DSSE envelopes with in-toto statements
//! (<https://github.com/secure-systems-lab/dsse/blob/master/protocol.md>,
//! <https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md>).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::document::{Bytes, signature};
use crate::text::shown;
use kubexm_types::Digest;

/// Media type of a statement.
const STATEMENT: &str = "application/vnd.in-toto+json";
/// Types of statements; the first is that of in-toto before version 1.
const STATEMENTS: [&str; 2] = [
    "https://in-toto.io/Statement/v0.1",
    "https://in-toto.io/Statement/v1",
];
/// Predicate type of a statement that is a signature
/// (<https://github.com/sigstore/cosign/blob/main/specs/BUNDLE_SPEC.md>).
const SIGNED: &str = "https://sigstore.dev/cosign/sign/v1";
/// Maximum number of subjects of a statement, as in other implementations.
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

/// The content of an envelope.
pub(super) struct Opened {
    /// The bytes that the signature is of.
    pub signed: Vec<u8>,
    pub payload: Vec<u8>,
    pub signature: Vec<u8>,
}

impl Envelope {
    /// Returns the content of the envelope.
    ///
    /// # Errors
    /// The payload is not a statement, or the envelope does not have exactly one signature.
    pub fn open(self) -> Result<Opened, String> {
        if self.payload_type != STATEMENT {
            return Err(format!(
                "has an envelope with a '{}', not with an in-toto statement",
                shown(&self.payload_type)
            ));
        }
        let Ok([one]) = <[Signature; 1]>::try_from(self.signatures) else {
            return Err("has an envelope that does not have exactly one signature".to_owned());
        };
        let payload = self.payload.0;
        Ok(Opened {
            signed: signed(&self.payload_type, &payload),
            payload,
            signature: signature(one.sig)?,
        })
    }
}

/// Returns DSSE's pre-authentication encoding: type and payload, each with its length, so that bytes of
/// one cannot pass for bytes of the other.
fn signed(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let kind = payload_type.len();
    let head = format!("DSSEv1 {kind} {payload_type} {} ", payload.len());
    [head.as_bytes(), payload].concat()
}

/// An in-toto statement: a predicate about subjects.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Statement {
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
    /// Parses a statement.
    ///
    /// # Errors
    /// The payload is not a statement.
    pub fn read(payload: &[u8]) -> Result<Self, String> {
        let statement: Self = serde_json::from_slice(payload).map_err(|error| {
            let words = shown(&error.to_string());
            format!("the signed payload cannot be read: {words}")
        })?;
        if STATEMENTS.contains(&statement.kind.as_str()) {
            Ok(statement)
        } else {
            Err(format!(
                "the signed payload is a '{}', not an in-toto statement",
                shown(&statement.kind)
            ))
        }
    }

    /// Whether the statement is a signature and not another attestation.
    pub fn is_signature(&self) -> bool {
        self.predicate_type == SIGNED
    }

    /// Checks that the statement is a signature.
    ///
    /// # Errors
    /// It has another predicate.
    pub fn must_be_signature(&self) -> Result<(), String> {
        if self.is_signature() {
            Ok(())
        } else {
            Err(format!(
                "it is an attestation of type '{}', not a signature",
                shown(&self.predicate_type)
            ))
        }
    }

    /// Checks that the statement is about the artifact.
    ///
    /// # Errors
    /// It has other subjects.
    pub fn must_be_of(&self, artifact: &Digest) -> Result<(), String> {
        if self.subject.len() > MOST_SUBJECTS {
            return Err(format!(
                "it is a signature of more than {MOST_SUBJECTS} subjects"
            ));
        }
        let digests = self
            .subject
            .iter()
            .map(|subject| subject.digest.get("sha256"));
        let digests: Vec<&String> = digests.flatten().collect();
        if digests.iter().any(|digest| **digest == artifact.hex()) {
            return Ok(());
        }
        Err(match digests.first() {
            Some(first) => format!("it is a signature of sha256:{}", shown(first)),
            None => "it is a signature without a SHA-256 subject".to_owned(),
        })
    }
}

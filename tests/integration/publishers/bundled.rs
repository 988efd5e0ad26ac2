//! The Sigstore instance of the tests signs with Sigstore bundles.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm_types::Digest;
use rcgen::KeyPair;
use serde_json::{Value, json};

use super::authority::{Sigstore, Wish, der, message_entry, sign};
use super::log::Tree;

/// The parts of a bundle, correct or with a fault.
pub struct Bundled {
    pub envelope_type: &'static str,
    pub predicate: &'static str,
    /// Kind and body of the log entry are those of a message.
    pub logged_as_message: bool,
}

impl Default for Bundled {
    fn default() -> Self {
        Self {
            envelope_type: "application/vnd.in-toto+json",
            predicate: "https://sigstore.dev/cosign/sign/v1",
            logged_as_message: false,
        }
    }
}

const LOG: &str = "log.example";

/// A signature and its parts, before it is in a log.
pub struct Signed {
    pub certificate: String,
    pub signature: Vec<u8>,
    /// Returns the request to the log: the certificate, what is signed, and the content of an envelope.
    pub certificate_in_log: String,
    pub logged: Vec<u8>,
    pub payload: Vec<u8>,
    /// Returns the part of a bundle that has the signature, and its place.
    content: (&'static str, Value),
}

/// Returns the signed bytes of an envelope.
fn encoded(kind: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

impl Sigstore {
    /// Returns a statement about an image.
    pub fn sign_statement(&self, wish: &Wish, how: &Bundled) -> Signed {
        let key = KeyPair::generate().unwrap();
        let certificate = self.certificate(wish, &key);
        let payload = json!({
            "_type": "https://in-toto.io/Statement/v1", "predicateType": how.predicate,
            "subject": [{"digest": {"sha256": wish.image.hex()}}], "predicate": {},
        })
        .to_string()
        .into_bytes();
        let kind = how.envelope_type;
        let signed = wish.signed.as_deref().unwrap_or(&payload);
        let signature = sign(&key, &encoded(kind, signed));
        let content = json!({
            "payload": STANDARD.encode(&payload), "payloadType": kind,
            "signatures": [{"sig": STANDARD.encode(&signature)}],
        });
        let payload = wish.logged.clone().unwrap_or(payload);
        Signed {
            certificate_in_log: self.certificate_in_log(wish, &certificate),
            certificate,
            signature,
            logged: encoded(kind, &payload),
            payload,
            content: ("dsseEnvelope", content),
        }
    }

    /// Returns the unchanged manifest of an image.
    pub fn sign_message(&self, wish: &Wish, manifest: &[u8]) -> Signed {
        let key = KeyPair::generate().unwrap();
        let certificate = self.certificate(wish, &key);
        let signature = sign(&key, wish.signed.as_deref().unwrap_or(manifest));
        let content = json!({
            "messageDigest": {
                "algorithm": "SHA2_256", "digest": STANDARD.encode(wish.image.bytes()),
            },
            "signature": STANDARD.encode(&signature),
        });
        let logged = wish.logged.as_deref().unwrap_or(manifest).to_vec();
        Signed {
            certificate_in_log: self.certificate_in_log(wish, &certificate),
            certificate,
            signature,
            payload: logged.clone(),
            logged,
            content: ("messageSignature", content),
        }
    }

    /// Signs in the bundle format: a statement about an image in a separate document.
    pub fn bundle(&self, wish: &Wish, how: &Bundled) -> Value {
        let signed = self.sign_statement(wish, how);
        let payload = Digest::of(&signed.payload);
        let body = if how.logged_as_message {
            message_entry(&payload, &signed.signature, &signed.certificate_in_log)
        } else {
            json!({
                "apiVersion": "0.0.1", "kind": "dsse",
                "spec": {
                    "envelopeHash": {"algorithm": "sha256", "value": Digest::of(b"").hex()},
                    "payloadHash": {"algorithm": "sha256", "value": payload.hex()},
                    "signatures": [{
                        "signature": STANDARD.encode(&signed.signature),
                        "verifier": STANDARD.encode(&signed.certificate_in_log),
                    }],
                },
            })
        };
        signed.bundle(self.logged(wish, &body))
    }

    /// Signs the unchanged manifest of an image.
    pub fn message_bundle(&self, wish: &Wish, manifest: &[u8]) -> Value {
        let signed = self.sign_message(wish, manifest);
        let logged = Digest::of(&signed.logged);
        let body = message_entry(&logged, &signed.signature, &signed.certificate_in_log);
        signed.bundle(self.logged(wish, &body))
    }

    /// Returns a log entry with promise and inclusion proof.
    fn logged(&self, wish: &Wish, body: &Value) -> Value {
        let text = body.to_string();
        let (encoded, time, id) = (STANDARD.encode(&text), wish.logged_at, self.log_id());
        let promised = format!(
            r#"{{"body":"{encoded}","integratedTime":{time},"logID":"{id}","logIndex":99}}"#
        );
        json!({
            "logIndex": "99", "logId": {"keyId": STANDARD.encode(hex::decode(&id).unwrap())},
            "kindVersion": {"kind": body["kind"], "version": body["apiVersion"]},
            "integratedTime": time.to_string(),
            "inclusionPromise": {
                "signedEntryTimestamp": STANDARD.encode(sign(&self.log, promised.as_bytes())),
            },
            "inclusionProof": Tree::with(text.as_bytes()).proof(0, &self.log, LOG),
            "canonicalizedBody": encoded,
        })
    }

    /// Returns a proof for another entry of the same log.
    pub fn proof_of_another(&self, body: &[u8]) -> Value {
        Tree::with(body).proof(1, &self.log, LOG)
    }

    /// Returns an inclusion proof of this log for an entry.
    pub fn proof_of(&self, body: &[u8]) -> Value {
        Tree::with(body).proof(0, &self.log, LOG)
    }
}

impl Signed {
    /// Returns the document with an entry of a log.
    pub fn bundle(&self, entry: Value) -> Value {
        let mut document = json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {
                "certificate": {"rawBytes": der(&self.certificate)},
                "tlogEntries": [entry],
            },
        });
        let (place, content) = &self.content;
        document[*place] = content.clone();
        document
    }
}

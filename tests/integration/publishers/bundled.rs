//! The tests' own Sigstore signs in the form of today.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm::spec::Digest;
use rcgen::KeyPair;
use serde_json::{Value, json};

use super::authority::{Sigstore, Wish, der, message_entry, sign};
use super::log::Tree;

/// What a bundle is made of, rightly or as a test wishes it.
pub struct Bundled {
    pub envelope_type: &'static str,
    pub predicate: &'static str,
    /// Kind and body of the log's entry are of a message's.
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

impl Sigstore {
    /// A signature in the form of today: a statement about an image, in a document of its own.
    pub fn bundle(&self, wish: &Wish, how: &Bundled) -> Value {
        let key = KeyPair::generate().unwrap();
        let certificate = self.certificate(wish, &key);
        let statement = |image: &Digest| {
            json!({
                "_type": "https://in-toto.io/Statement/v1", "predicateType": how.predicate,
                "subject": [{"digest": {"sha256": image.hex()}}], "predicate": {},
            })
            .to_string()
            .into_bytes()
        };
        let payload = statement(&wish.image);
        let (kind, length) = (how.envelope_type, how.envelope_type.len());
        let signed = wish.signed.as_deref().unwrap_or(&payload);
        let head = format!("DSSEv1 {length} {kind} {} ", signed.len());
        let signature = sign(&key, &[head.as_bytes(), signed].concat());
        let logged = Digest::of(wish.logged.as_deref().unwrap_or(&payload));
        let in_log = self.certificate_in_log(wish, &certificate);
        let body = match how.logged_as_message {
            true => message_entry(&logged, &signature, &in_log),
            false => json!({
                "apiVersion": "0.0.1", "kind": "dsse",
                "spec": {
                    "envelopeHash": {"algorithm": "sha256", "value": Digest::of(b"").hex()},
                    "payloadHash": {"algorithm": "sha256", "value": logged.hex()},
                    "signatures": [{
                        "signature": STANDARD.encode(&signature),
                        "verifier": STANDARD.encode(&in_log),
                    }],
                },
            }),
        };
        let content = json!({
            "payload": STANDARD.encode(&payload), "payloadType": kind,
            "signatures": [{"sig": STANDARD.encode(&signature)}],
        });
        self.document(wish, &certificate, &body, "dsseEnvelope", content)
    }

    /// The signature of an image's manifest as it is.
    pub fn message_bundle(&self, wish: &Wish, manifest: &[u8]) -> Value {
        let key = KeyPair::generate().unwrap();
        let certificate = self.certificate(wish, &key);
        let signature = sign(&key, wish.signed.as_deref().unwrap_or(manifest));
        let logged = Digest::of(wish.logged.as_deref().unwrap_or(manifest));
        let in_log = self.certificate_in_log(wish, &certificate);
        let body = message_entry(&logged, &signature, &in_log);
        let content = json!({
            "messageDigest": {
                "algorithm": "SHA2_256", "digest": STANDARD.encode(wish.image.bytes()),
            },
            "signature": STANDARD.encode(&signature),
        });
        self.document(wish, &certificate, &body, "messageSignature", content)
    }

    fn document(
        &self,
        wish: &Wish,
        certificate: &str,
        body: &Value,
        kind: &str,
        content: Value,
    ) -> Value {
        let mut document = json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {
                "certificate": {"rawBytes": der(certificate)},
                "tlogEntries": [self.logged(wish, body)],
            },
        });
        document[kind] = content;
        document
    }

    /// An entry of the log, promised and kept.
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

    /// That another entry of the same log was kept.
    pub fn proof_of_another(&self, body: &[u8]) -> Value {
        Tree::with(body).proof(1, &self.log, LOG)
    }

    /// That an entry was kept, as this log says it.
    pub fn proof_of(&self, body: &[u8]) -> Value {
        Tree::with(body).proof(0, &self.log, LOG)
    }
}

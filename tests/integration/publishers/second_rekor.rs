//! The Sigstore instance of the tests with a log of Rekor's version 2, which has no timestamps, and a
//! timestamp authority (<https://github.com/sigstore/rekor-tiles/blob/main/CLIENTS.md>).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubexm_types::Digest;
use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData};
use serde_json::{Value, json};

use super::authority::{Sigstore, der};
use super::bundled::Signed;
use super::log::{Tree, note_id};
use super::timestamp_authority::{Made, TimestampAuthority, Wish};

/// The name of the log, in its checkpoints and in trusted roots.
pub const LOG: &str = "log2.example";

pub struct Second {
    pub sigstore: Sigstore,
    pub log: KeyPair,
    pub authority: TimestampAuthority,
}

impl Second {
    pub fn new() -> Self {
        Self::with(&Made::right())
    }

    pub fn with(made: &Made) -> Self {
        Self {
            sigstore: Sigstore::new(),
            log: KeyPair::generate_for(&PKCS_ED25519).unwrap(),
            authority: TimestampAuthority::new(made),
        }
    }

    /// Returns the trusted root that other tools of Sigstore also read. It also has the log of version 1.
    pub fn trusted_root(&self) -> Value {
        let mut root = self.sigstore.trusted_root();
        let log = json!({
            "baseUrl": format!("https://{LOG}"), "hashAlgorithm": "SHA2_256",
            "publicKey": {
                "rawBytes": STANDARD.encode(self.log.subject_public_key_info()),
                "keyDetails": "PKIX_ED25519", "validFor": {"start": "2023-06-01T00:00:00Z"},
            },
            "logId": {"keyId": STANDARD.encode(note_id(LOG, &self.log).bytes())},
        });
        root["tlogs"].as_array_mut().unwrap().push(log);
        root["timestampAuthorities"] = json!([self.authority.trusted(true)]);
        root
    }

    /// Returns a bundle with an entry and a timestamp.
    pub fn bundle(&self, signed: &Signed, body: &Value, wish: &Wish) -> Value {
        let bundle = signed.bundle(self.entry(body));
        stamped(&bundle, &[self.authority.stamp(wish, &signed.signature)])
    }

    /// Returns the valid bundle.
    pub fn right(&self, signed: &Signed) -> Value {
        self.bundle(signed, &entry_of(signed), &Wish::right())
    }

    /// Returns an entry of the log, with an inclusion proof and without a promise.
    pub fn entry(&self, body: &Value) -> Value {
        let body = body.to_string();
        let proof = Tree::with(body.as_bytes()).proof_2(0, &self.log, LOG);
        json!({
            "logIndex": proof["logIndex"],
            "logId": {"keyId": STANDARD.encode(note_id(LOG, &self.log).bytes())},
            "kindVersion": {"kind": "hashedrekord", "version": "0.0.2"},
            "integratedTime": "0", "inclusionPromise": null, "inclusionProof": proof,
            "canonicalizedBody": STANDARD.encode(body),
        })
    }
}

/// Returns the bundle with these timestamps.
pub fn stamped(bundle: &Value, timestamps: &[Vec<u8>]) -> Value {
    let mut bundle = bundle.clone();
    let timestamps = timestamps.iter();
    let timestamps = timestamps.map(|one| json!({"signedTimestamp": STANDARD.encode(one)}));
    bundle["verificationMaterial"]["timestampVerificationData"] =
        json!({"rfc3161Timestamps": timestamps.collect::<Vec<_>>()});
    bundle
}

/// Returns the log entry of a signature, in canonical JSON.
pub fn entry_of(signed: &Signed) -> Value {
    json!({
        "apiVersion": "0.0.2", "kind": "hashedrekord",
        "spec": {"hashedRekordV002": {
            "data": hash(&signed.logged), "signature": signature(signed),
        }},
    })
}

/// Returns the entry of an envelope in the form of the first logs of version 2.
pub fn envelope_entry_of(signed: &Signed) -> Value {
    json!({
        "apiVersion": "0.0.2", "kind": "dsse",
        "spec": {"dsseV002": {
            "payloadHash": hash(&signed.payload), "signatures": [signature(signed)],
        }},
    })
}

fn hash(content: &[u8]) -> Value {
    json!({"algorithm": "SHA2_256", "digest": STANDARD.encode(Digest::of(content).bytes())})
}

fn signature(signed: &Signed) -> Value {
    json!({
        "content": STANDARD.encode(&signed.signature),
        "verifier": {
            "keyDetails": "PKIX_ECDSA_P256_SHA_256",
            "x509Certificate": {"rawBytes": der(&signed.certificate_in_log)},
        },
    })
}

//! A Rekor log entry in the form that cosign stores with a signature: the log's signed promise (SET) that
//! it recorded this signature with this certificate, and when
//! (<https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md#properties>).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use super::body::{Kind, Noted};
use super::shown;
use super::trusted_root::TrustedRoot;
use kubexm_types::{Digest, VerifyingKey};

/// Kinds of entries that cosign has created for signatures of images in this form.
const KINDS: &[Kind] = &[Kind::HashedRekord, Kind::Rekord];

/// The JSON value of the annotation.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Entry {
    signed_entry_timestamp: String,
    payload: Promised,
}

/// The content that the log signed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Promised {
    /// The entry's body in base64.
    pub body: String,
    /// When the log integrated the entry, in seconds since 1970.
    pub integrated_time: i64,
    /// The entry's index across all shards of the log.
    pub log_index: i64,
    /// SHA-256 of the log's key, in hexadecimal.
    #[serde(rename = "logID")]
    pub log_id: String,
}

/// Parses the value of an annotation.
pub(super) fn read(text: &str) -> Result<Entry, String> {
    serde_json::from_str(text).map_err(|error| {
        let words = shown(&error.to_string());
        format!("its log entry cannot be read: {words}")
    })
}

impl Entry {
    /// Returns when the log integrated the entry, in seconds since 1970. Trustworthy only if
    /// `must_be_promised` succeeds.
    pub fn time(&self) -> i64 {
        self.payload.integrated_time
    }

    /// Checks that a trusted log signed the promise.
    ///
    /// # Errors
    /// The log is not trusted, or the promise is not signed by it.
    pub fn must_be_promised(&self, root: &TrustedRoot) -> Result<(), String> {
        let log = self
            .payload
            .log_id
            .parse::<Digest>()
            .ok()
            .and_then(|id| root.log(&id, &[self.time()]))
            .ok_or("its entry is in a log that is not trusted")?;
        let promise = STANDARD.decode(&self.signed_entry_timestamp);
        let promise = promise.map_err(|_| "its log entry has no valid signature")?;
        self.payload.must_be_signed(&log.key, &promise)
    }

    /// Checks that the entry is about this signature.
    ///
    /// # Errors
    /// The entry is about another signature.
    pub fn must_be_of(
        &self,
        payload: &[u8],
        signature: &[u8],
        certificate: &[u8],
    ) -> Result<(), String> {
        let body = STANDARD.decode(&self.payload.body);
        let body = body.map_err(|_| "the body of its log entry cannot be read")?;
        let noted = Noted {
            kinds: KINDS,
            signed: payload,
            payload,
            signature,
            certificate,
        };
        noted.must_stand_in(&body, self.time())
    }
}

impl Promised {
    /// Checks that the log's key signed the promise.
    ///
    /// # Errors
    /// It did not.
    pub fn must_be_signed(&self, log: &VerifyingKey, promise: &[u8]) -> Result<(), String> {
        match log.verifies(self.canonical().as_bytes(), promise) {
            true => Ok(()),
            false => Err("its log entry is not signed by that log".to_owned()),
        }
    }

    /// Returns the bytes that the log signed (RFC 8785: sorted names, no white space).
    fn canonical(&self) -> String {
        let Self {
            body,
            integrated_time,
            log_index,
            log_id,
        } = self;
        let (body, log_id) = (Value::from(body.as_str()), Value::from(log_id.as_str()));
        format!(
            r#"{{"body":{body},"integratedTime":{integrated_time},"logID":{log_id},"logIndex":{log_index}}}"#
        )
    }
}

//! An entry of Rekor's log, as cosign keeps it beside a signature: the log's own signed promise that it
//! saw this very signature with this certificate, and when
//! (<https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md#properties>).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use super::body::{Kind, Noted};
use super::shown;
use super::trusted_root::TrustedRoot;
use kubexm_types::{Digest, VerifyingKey};

/// Kinds of entries that cosign has made for signatures of images in this form.
const KINDS: &[Kind] = &[Kind::HashedRekord, Kind::Rekord];

/// What stands in the annotation.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Entry {
    signed_entry_timestamp: String,
    payload: Promised,
}

/// What the log promises.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Promised {
    /// What the entry says, in base64.
    pub body: String,
    /// When the log took it, in seconds since 1970.
    pub integrated_time: i64,
    /// Its number in the log with all its parts.
    pub log_index: i64,
    /// SHA-256 of the log's key, in hexadecimal digits.
    #[serde(rename = "logID")]
    pub log_id: String,
}

/// Reads an annotation's text.
pub(super) fn read(text: &str) -> Result<Entry, String> {
    serde_json::from_str(text).map_err(|error| {
        let words = shown(&error.to_string());
        format!("its entry of the log cannot be read: {words}")
    })
}

impl Entry {
    /// When the log took the entry, in seconds since 1970; true where it is promised.
    pub fn time(&self) -> i64 {
        self.payload.integrated_time
    }

    /// Whether a log that is trusted says so.
    ///
    /// # Errors
    /// None does.
    pub fn must_be_promised(&self, root: &TrustedRoot) -> Result<(), String> {
        let log = self
            .payload
            .log_id
            .parse::<Digest>()
            .ok()
            .and_then(|id| root.log(&id, &[self.time()]))
            .ok_or("its entry is of a log that is not trusted")?;
        let promise = STANDARD.decode(&self.signed_entry_timestamp);
        let promise = promise.map_err(|_| "its entry of the log has no signature")?;
        self.payload.must_be_signed(&log.key, &promise)
    }

    /// Whether the entry is about this signature.
    ///
    /// # Errors
    /// It is about something else.
    pub fn must_be_of(
        &self,
        payload: &[u8],
        signature: &[u8],
        certificate: &[u8],
    ) -> Result<(), String> {
        let body = STANDARD.decode(&self.payload.body);
        let body = body.map_err(|_| "its entry of the log says nothing that can be read")?;
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
    /// Whether a log's key signed it.
    ///
    /// # Errors
    /// It did not.
    pub fn must_be_signed(&self, log: &VerifyingKey, promise: &[u8]) -> Result<(), String> {
        match log.verifies(self.canonical().as_bytes(), promise) {
            true => Ok(()),
            false => Err("its entry of the log is not signed by that log".to_owned()),
        }
    }

    /// What the log signed (RFC 8785: sorted names, no blanks).
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

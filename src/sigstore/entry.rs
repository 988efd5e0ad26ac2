//! An entry of Rekor's log, as cosign keeps it beside a signature: the log's own signed promise that it
//! saw this very signature with this certificate, and when
//! (<https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md#properties>).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use super::claim::at;
use super::trusted_root::TrustedRoot;
use super::{certificate, shown};
use crate::spec::Digest;

/// Kinds of entries that cosign has made for signatures of images. They say what counts here in the
/// same words.
const KINDS: [&str; 2] = ["hashedrekord", "rekord"];

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
struct Promised {
    body: String,
    integrated_time: i64,
    log_index: i64,
    #[serde(rename = "logID")]
    log_id: String,
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
            .and_then(|id| root.log(&id, self.time()))
            .ok_or("its entry is of a log that is not trusted")?;
        let promise = STANDARD.decode(&self.signed_entry_timestamp);
        let promise = promise.map_err(|_| "its entry of the log has no signature")?;
        match log.verifies(self.canonical().as_bytes(), &promise) {
            true => Ok(()),
            false => Err("its entry of the log is not signed by that log".to_owned()),
        }
    }

    /// What the log signed (RFC 8785: sorted names, no blanks).
    fn canonical(&self) -> String {
        let Promised {
            body,
            integrated_time,
            log_index,
            log_id,
        } = &self.payload;
        let (body, log_id) = (Value::from(body.as_str()), Value::from(log_id.as_str()));
        format!(
            r#"{{"body":{body},"integratedTime":{integrated_time},"logID":{log_id},"logIndex":{log_index}}}"#
        )
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
        let unreadable = "its entry of the log says nothing that can be read";
        let body = STANDARD.decode(&self.payload.body);
        let body: Value =
            serde_json::from_slice(&body.map_err(|_| unreadable)?).map_err(|_| unreadable)?;
        let kind = body["kind"].as_str().unwrap_or_default();
        if !KINDS.contains(&kind) || body["apiVersion"] != "0.0.1" {
            return Err("its entry of the log is of a kind that is not known".to_owned());
        }
        let spec = &body["spec"];
        let decode = |value: &Value| value.as_str().and_then(|text| STANDARD.decode(text).ok());
        let (hash, signed) = (&spec["data"]["hash"], &spec["signature"]);
        let is_payload =
            hash["algorithm"] == "sha256" && hash["value"] == Digest::of(payload).hex().as_str();
        let is_signature = decode(&signed["content"]).as_deref() == Some(signature);
        let key = decode(&signed["publicKey"]["content"]);
        let key = key.and_then(|pem| String::from_utf8(pem).ok());
        let key = key.and_then(|pem| certificate::from_pem(&pem).ok());
        if is_payload && is_signature && key.as_deref() == Some(certificate) {
            return Ok(());
        }
        let when = at(self.time());
        Err(format!(
            "its entry of the log, of {when}, is about another signature"
        ))
    }
}

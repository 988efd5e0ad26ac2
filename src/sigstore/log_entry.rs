//! A Rekor log entry as cosign stores it in an annotation of a signature, with the log's signed entry
//! timestamp (<https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md#properties>).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::bundle::Entry;
use super::text::shown;

/// The JSON value of the annotation.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Annotation {
    signed_entry_timestamp: String,
    payload: Payload,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload {
    /// The entry's body in base64.
    body: String,
    /// When the log integrated the entry, in seconds since 1970.
    integrated_time: i64,
    /// The entry's index across all shards of the log.
    log_index: i64,
    /// SHA-256 of the log's key, in hexadecimal.
    #[serde(rename = "logID")]
    log_id: String,
}

/// Converts the value of an annotation to an entry of a bundle with an inclusion promise.
///
/// # Errors
/// The text is not a log entry.
pub(super) fn convert(text: &str) -> Result<Entry, String> {
    let annotation: Annotation = serde_json::from_str(text).map_err(|error| {
        let cause = shown(&error.to_string());
        format!("its log entry cannot be read: {cause}")
    })?;
    let payload = annotation.payload;
    let log = payload.log_id.parse();
    let body = STANDARD.decode(&payload.body);
    let promise = STANDARD.decode(&annotation.signed_entry_timestamp);
    Ok(Entry::promised(
        log.map_err(|_| "its entry is in a log that is not trusted")?,
        payload.log_index,
        body.map_err(|_| "the body of its log entry cannot be read")?,
        payload.integrated_time,
        promise.map_err(|_| "its log entry has no valid signature")?,
    ))
}

//! The payload that cosign's older signatures of images sign
//! (<https://github.com/containers/image/blob/main/docs/containers-signature.5.md>).

use serde::Deserialize;

use super::text::shown;
use kubexm_types::Digest;

/// `critical.type` of a payload.
const TYPE: &str = "cosign container image signature";

/// Returns the digest of the image that a payload names.
///
/// # Errors
/// The bytes are not a payload of cosign.
pub fn image_of(payload: &[u8]) -> Result<Digest, String> {
    #[derive(Deserialize)]
    struct Payload {
        critical: Critical,
    }
    #[derive(Deserialize)]
    struct Critical {
        image: Image,
        #[serde(rename = "type")]
        kind: String,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Image {
        docker_manifest_digest: Digest,
    }
    let payload: Payload = serde_json::from_slice(payload).map_err(|error| {
        format!(
            "the signed payload cannot be read: {}",
            shown(&error.to_string())
        )
    })?;
    match payload.critical.kind.as_str() {
        TYPE => Ok(payload.critical.image.docker_manifest_digest),
        other => Err(format!(
            "the signed payload has the type '{}', not that of a container image signature",
            shown(other)
        )),
    }
}

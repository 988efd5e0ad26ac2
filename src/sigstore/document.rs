//! The documents around a signature: the manifest under the tag `sha256-….sig`, and what it signs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::shown;
use kubexm_types::Digest;

/// Media type of what a claim signs.
pub const PAYLOAD_TYPE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// Media types of a signature manifest, in OCI's words and in Docker's.
const MANIFEST_TYPES: [&str; 2] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];
/// A signature manifest is no larger, in bytes; registries take no larger manifest.
pub const LARGEST_MANIFEST: usize = 4 * 1024 * 1024;
/// Nor is a payload or a configuration.
pub const LARGEST_PART: u64 = 1024 * 1024;
/// Nobody signs an image so often.
const MOST_CLAIMS: usize = 256;
/// Signatures of all kinds of keys are shorter, in bytes.
const LONGEST_SIGNATURE: usize = 2048;
/// What a payload says of itself.
const CLAIM_TYPE: &str = "cosign container image signature";

/// What stands under the tag `sha256-….sig`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureManifest {
    /// The manifest's media type.
    pub media_type: String,
    /// Its configuration and layers, each once.
    pub parts: Vec<Part>,
    /// The signatures, in their order.
    pub claims: Vec<Claim>,
}

/// Something that the manifest names.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    /// Media type.
    pub media_type: String,
    /// SHA-256 of the content.
    pub digest: Digest,
    /// Bytes.
    pub size: u64,
}

/// One signature with what stands beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// What is signed.
    pub payload: Part,
    /// The signature; empty where it cannot be read.
    pub signature: Vec<u8>,
    /// The certificate in PEM, where there is one.
    pub certificate: Option<String>,
    /// The log's entry, where there is one.
    pub entry: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    media_type: Option<String>,
    config: Layer,
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layer {
    media_type: String,
    digest: Digest,
    size: u64,
    #[serde(default)]
    annotations: Annotations,
}

/// Of cosign's, those that count. What else is said there is not looked at.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "dev.cosignproject.cosign/signature")]
    signature: Option<String>,
    #[serde(rename = "dev.sigstore.cosign/certificate")]
    certificate: Option<String>,
    #[serde(rename = "dev.sigstore.cosign/bundle")]
    entry: Option<String>,
}

impl Layer {
    fn part(&self) -> Part {
        Part {
            media_type: self.media_type.clone(),
            digest: self.digest,
            size: self.size,
        }
    }
}

/// Reads a signature manifest.
///
/// # Errors
/// It is none, or larger than any; as the rest of a sentence about it.
pub fn read(bytes: &[u8]) -> Result<SignatureManifest, String> {
    if bytes.len() > LARGEST_MANIFEST {
        return Err("is larger than any signature manifest".to_owned());
    }
    let manifest: Manifest = serde_json::from_slice(bytes)
        .map_err(|error| format!("is no signature manifest: {}", shown(&error.to_string())))?;
    let mut parts: Vec<Part> = Vec::new();
    let mut claims = Vec::new();
    for layer in std::iter::once(&manifest.config).chain(&manifest.layers) {
        let part = layer.part();
        if part.size > LARGEST_PART {
            return Err(format!("names {} of impossible size", part.digest));
        }
        if let Some(known) = parts.iter().find(|known| known.digest == part.digest) {
            if known.size != part.size {
                return Err(format!("gives {} two sizes", part.digest));
            }
        } else {
            parts.push(part);
        }
    }
    for layer in &manifest.layers {
        let Some(signature) = layer
            .annotations
            .signature
            .as_ref()
            .filter(|_| layer.media_type == PAYLOAD_TYPE)
        else {
            continue;
        };
        claims.push(Claim {
            payload: layer.part(),
            signature: decode_signature(signature),
            certificate: not_empty(&layer.annotations.certificate),
            entry: not_empty(&layer.annotations.entry),
        });
    }
    if parts.len() > MOST_CLAIMS || claims.len() > MOST_CLAIMS {
        return Err(format!("carries more than {MOST_CLAIMS} signatures"));
    }
    let media_type = manifest.media_type.unwrap_or(MANIFEST_TYPES[0].to_owned());
    if !MANIFEST_TYPES.contains(&media_type.as_str()) {
        return Err(format!(
            "is a '{}', no signature manifest",
            shown(&media_type)
        ));
    }
    Ok(SignatureManifest {
        media_type,
        parts,
        claims,
    })
}

/// One that cannot be read must not hide the others.
fn decode_signature(text: &str) -> Vec<u8> {
    let decoded = STANDARD.decode(text.trim()).unwrap_or_default();
    match decoded.len() <= LONGEST_SIGNATURE {
        true => decoded,
        false => Vec::new(),
    }
}

fn not_empty(text: &Option<String>) -> Option<String> {
    text.clone().filter(|text| !text.trim().is_empty())
}

/// The image that a payload names
/// (<https://github.com/containers/image/blob/main/docs/containers-signature.5.md>).
///
/// # Errors
/// It is no payload of cosign's.
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
            "what is signed cannot be read: {}",
            shown(&error.to_string())
        )
    })?;
    match payload.critical.kind.as_str() {
        CLAIM_TYPE => Ok(payload.critical.image.docker_manifest_digest),
        other => Err(format!(
            "what is signed is a '{}', no claim about an image",
            shown(other)
        )),
    }
}

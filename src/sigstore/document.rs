//! The manifest under the tag `sha256-….sig` with the older form of signatures.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::bundle::{Bundle, Certified, Content, SignedBy};
use super::limits::{LARGEST_MANIFEST, LARGEST_PART};
use super::text::shown;
use super::{certificate, log_entry};
use kubexm_types::Digest;

/// Media type of a claim's payload.
pub const PAYLOAD_TYPE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// Media types of a signature manifest: OCI's and Docker's.
const MANIFEST_TYPES: [&str; 2] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];
/// Maximum number of signatures of an image.
const MOST_CLAIMS: usize = 256;
/// Maximum size of a signature, in bytes; signatures of all supported key types are shorter.
const LONGEST_SIGNATURE: usize = 2048;

/// The signature manifest of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureManifest {
    pub media_type: String,
    /// The configuration and the layers, without duplicates.
    pub parts: Vec<Part>,
    /// The signatures, in the order of the layers.
    pub claims: Vec<Claim>,
}

/// A descriptor in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    pub media_type: String,
    pub digest: Digest,
    /// Size in bytes.
    pub size: u64,
}

/// One signature with its certificate and log entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The descriptor of the signed payload.
    pub payload: Part,
    /// Empty if the annotation is not a valid signature.
    pub signature: Vec<u8>,
    /// The certificate in PEM.
    pub certificate: Option<String>,
    /// The entry of the transparency log, as JSON.
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

/// The annotations of cosign that verification uses.
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

impl SignatureManifest {
    /// Converts each signature to a bundle. `payload` returns the signed payload of a claim.
    pub fn bundles<'a>(
        &'a self,
        payload: &'a dyn Fn(&Part) -> Result<Vec<u8>, String>,
    ) -> impl Iterator<Item = Result<Bundle, String>> + 'a {
        let claims = self.claims.iter();
        claims.map(|claim| payload(&claim.payload).and_then(|payload| claim.bundle(payload)))
    }
}

impl Claim {
    /// Converts the signature of a payload to a bundle.
    ///
    /// # Errors
    /// The payload is another one, or a part of the claim cannot be read.
    pub fn bundle(&self, payload: Vec<u8>) -> Result<Bundle, String> {
        if Digest::of(&payload) != self.payload.digest {
            return Err("the signed payload was changed".to_owned());
        }
        if self.signature.is_empty() {
            return Err("its signature is not valid base64".to_owned());
        }
        let by = match &self.certificate {
            None => SignedBy::Key,
            Some(pem) => SignedBy::Certificate(Certified {
                certificate: certificate::from_pem(pem)?,
                entries: self
                    .entry
                    .iter()
                    .map(|text| log_entry::convert(text))
                    .collect::<Result<_, _>>()?,
                timestamps: Vec::new(),
            }),
        };
        Ok(Bundle {
            by,
            content: Content::SimpleSigning(payload),
            signature: self.signature.clone(),
        })
    }
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

/// Parses a signature manifest.
///
/// # Errors
/// The bytes are not a signature manifest or exceed a limit. The text completes a sentence about them.
pub fn read(bytes: &[u8]) -> Result<SignatureManifest, String> {
    if bytes.len() > LARGEST_MANIFEST {
        return Err("is larger than 4 MiB, the limit for a signature manifest".to_owned());
    }
    let manifest: Manifest = serde_json::from_slice(bytes)
        .map_err(|error| format!("is not a signature manifest: {}", shown(&error.to_string())))?;
    let mut parts: Vec<Part> = Vec::new();
    let mut claims = Vec::new();
    for layer in std::iter::once(&manifest.config).chain(&manifest.layers) {
        let part = layer.part();
        if part.size > LARGEST_PART {
            return Err(format!(
                "names {} with a size above the limit of 1 MiB",
                part.digest
            ));
        }
        if let Some(known) = parts.iter().find(|known| known.digest == part.digest) {
            if known.size != part.size {
                return Err(format!("lists {} with two sizes", part.digest));
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
            "is a '{}', not a signature manifest",
            shown(&media_type)
        ));
    }
    Ok(SignatureManifest {
        media_type,
        parts,
        claims,
    })
}

/// Decodes a signature. An invalid one yields an empty value, so that it does not hide the others.
fn decode_signature(text: &str) -> Vec<u8> {
    let decoded = STANDARD.decode(text.trim()).unwrap_or_default();
    if decoded.len() <= LONGEST_SIGNATURE {
        decoded
    } else {
        Vec::new()
    }
}

fn not_empty(text: &Option<String>) -> Option<String> {
    text.clone().filter(|text| !text.trim().is_empty())
}

//! The body of a Rekor entry: which signature of which content the log recorded, with which certificate
//! (<https://github.com/sigstore/rekor/tree/main/pkg/types>, and since version 2
//! <https://github.com/sigstore/protobuf-specs/tree/main/service-protos/rekor/v2>).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest as _, Sha384, Sha512};

use super::certificate;
use super::text::at;
use kubexm_types::Digest;

/// The values that an entry must contain.
pub(super) struct ExpectedEntry<'a> {
    /// The accepted kinds of entries.
    pub kinds: &'static [Kind],
    /// The signed bytes.
    pub signed: &'a [u8],
    /// The payload of the envelope, if the signature is of an envelope; otherwise equal to `signed`.
    pub payload: &'a [u8],
    pub signature: &'a [u8],
    /// The certificate in DER.
    pub certificate: &'a [u8],
}

/// Kinds of entries for signatures: version 0.0.1, and 0.0.2 since Rekor's version 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A signature of any content, by the content's hash.
    HashedRekord,
    /// As `HashedRekord`, with the content.
    Rekord,
    /// A signature of a DSSE envelope, by the payload's hash.
    Dsse,
    /// A signature of any content or of an envelope, by the hash of the signed bytes.
    HashedRekord2,
    /// A signature of a DSSE envelope, by the payload's hash; only the first logs of version 2 accepted it.
    Dsse2,
}

/// The values in an entry, as far as they can be decoded.
struct ParsedEntry {
    is_of_content: bool,
    signature: Option<Vec<u8>>,
    certificate: Option<Vec<u8>>,
}

impl Kind {
    fn name_and_version(self) -> (&'static str, &'static str) {
        match self {
            Self::HashedRekord => ("hashedrekord", "0.0.1"),
            Self::Rekord => ("rekord", "0.0.1"),
            Self::Dsse => ("dsse", "0.0.1"),
            Self::HashedRekord2 => ("hashedrekord", "0.0.2"),
            Self::Dsse2 => ("dsse", "0.0.2"),
        }
    }

    /// Extracts the values of an entry of this kind, and compares the hash with that of `expected`.
    fn parse(self, spec: &Value, expected: &ExpectedEntry<'_>) -> ParsedEntry {
        match self {
            Self::HashedRekord | Self::Rekord => ParsedEntry {
                is_of_content: is_of(&spec["data"]["hash"], expected.signed),
                signature: decoded(&spec["signature"]["content"]),
                certificate: from_pem(&spec["signature"]["publicKey"]["content"]),
            },
            Self::Dsse => {
                let signature = single(&spec["signatures"]);
                ParsedEntry {
                    is_of_content: is_of(&spec["payloadHash"], expected.payload),
                    signature: decoded(&signature["signature"]),
                    certificate: from_pem(&signature["verifier"]),
                }
            }
            Self::HashedRekord2 => {
                let spec = &spec["hashedRekordV002"];
                ParsedEntry::in_version_2(&spec["data"], expected.signed, &spec["signature"])
            }
            Self::Dsse2 => {
                let spec = &spec["dsseV002"];
                let signature = single(&spec["signatures"]);
                ParsedEntry::in_version_2(&spec["payloadHash"], expected.payload, signature)
            }
        }
    }
}

impl ParsedEntry {
    /// Extracts hash and signature in the format of Rekor's version 2.
    fn in_version_2(hash: &Value, content: &[u8], signature: &Value) -> Self {
        let hashed = match hash["algorithm"].as_str() {
            Some("SHA2_256") => Some(Digest::of(content).bytes().to_vec()),
            Some("SHA2_384") => Some(Sha384::digest(content).to_vec()),
            Some("SHA2_512") => Some(Sha512::digest(content).to_vec()),
            _ => None,
        };
        let certificate = &signature["verifier"]["x509Certificate"]["rawBytes"];
        Self {
            is_of_content: hashed.is_some() && decoded(&hash["digest"]) == hashed,
            signature: decoded(&signature["content"]),
            certificate: decoded(certificate),
        }
    }
}

impl ExpectedEntry<'_> {
    /// Checks that an entry with this time, in seconds since 1970, is about exactly this signature.
    ///
    /// # Errors
    /// The entry is about another signature, or cannot be read.
    pub fn check(&self, body: &[u8], time: i64) -> Result<(), String> {
        let body: Value =
            serde_json::from_slice(body).map_err(|_| "the body of its log entry cannot be read")?;
        let text = |key: &str| body[key].as_str().unwrap_or_default();
        let named = (text("kind"), text("apiVersion"));
        let mut kinds = self.kinds.iter();
        let kind = kinds.find(|kind| kind.name_and_version() == named);
        let kind = kind.ok_or("its log entry has an unknown kind")?;
        let parsed = kind.parse(&body["spec"], self);
        if parsed.is_of_content
            && parsed.signature.as_deref() == Some(self.signature)
            && parsed.certificate.as_deref() == Some(self.certificate)
        {
            return Ok(());
        }
        let when = at(time);
        Err(format!(
            "its log entry of {when} is about another signature"
        ))
    }
}

/// Whether a hash in the format of Rekor's version 1 is that of the content.
fn is_of(hash: &Value, content: &[u8]) -> bool {
    hash["algorithm"] == "sha256" && hash["value"] == Digest::of(content).hex().as_str()
}

/// Returns the only element of a list, or null if the list does not have exactly one.
fn single(list: &Value) -> &Value {
    match list.as_array().map(Vec::as_slice) {
        Some([single]) => single,
        _ => &Value::Null,
    }
}

fn decoded(value: &Value) -> Option<Vec<u8>> {
    STANDARD.decode(value.as_str()?).ok()
}

/// Decodes a certificate that is base64 of PEM.
fn from_pem(value: &Value) -> Option<Vec<u8>> {
    let pem = String::from_utf8(decoded(value)?).ok()?;
    certificate::from_pem(&pem).ok()
}

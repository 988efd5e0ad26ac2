//! The JSON form of a Sigstore bundle, versions 0.1 to 0.3, with the JSON mapping of protobuf
//! (<https://protobuf.dev/programming-guides/json/>).

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use x509_parser::asn1_rs::FromDer;
use x509_parser::certificate::X509Certificate;

use super::entry::{Entry, EntryDocument};
use super::envelope::Envelope;
use crate::text::shown;
use crate::tree::digest;
use kubexm_types::Digest;

/// The prefix of a bundle's media type in all versions of the format.
pub(crate) const MEDIA_TYPE_PREFIX: &str = "application/vnd.dev.sigstore.bundle";
/// Maximum size of a bundle, in bytes.
const LARGEST: usize = crate::limits::LARGEST_PART as usize;
/// Maximum size of a signature, in bytes; signatures of all supported key types are shorter.
pub(super) const LONGEST_SIGNATURE: usize = 2048;
/// Maximum size of a certificate, in bytes; Fulcio's certificates are shorter.
const LONGEST_CERTIFICATE: usize = 64 * 1024;
/// Maximum number of log entries of a bundle, and of timestamps, as in other implementations.
const MOST_ENTRIES: usize = 32;
const MOST_TIMESTAMPS: usize = 32;

/// Base64 as protobuf accepts it: with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Bytes in base64, in the standard or the URL-safe alphabet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bytes(pub Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let text = text.replace('-', "+").replace('_', "/");
        let bytes = BASE64.decode(text);
        bytes
            .map(Self)
            .map_err(|_| D::Error::custom("not valid base64"))
    }
}

/// A 64-bit number, which protobuf writes as a string and other programs write as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number(pub i64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(i64),
            Text(String),
        }
        match Either::deserialize(deserializer)? {
            Either::Number(number) => Ok(Self(number)),
            Either::Text(text) => text
                .parse()
                .map(Self)
                .map_err(|_| D::Error::custom("not a number")),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Document {
    media_type: String,
    verification_material: MaterialDocument,
    message_signature: Option<MessageSignature>,
    dsse_envelope: Option<Envelope>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MaterialDocument {
    public_key: Option<serde::de::IgnoredAny>,
    certificate: Option<Certificate>,
    x509_certificate_chain: Option<Chain>,
    #[serde(default)]
    tlog_entries: Vec<EntryDocument>,
    timestamp_verification_data: Option<Timestamps>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Timestamps {
    #[serde(default)]
    rfc3161_timestamps: Vec<Timestamp>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Timestamp {
    signed_timestamp: Bytes,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Certificate {
    raw_bytes: Bytes,
}

#[derive(Debug, Deserialize)]
struct Chain {
    certificates: Vec<Certificate>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageSignature {
    message_digest: MessageDigest,
    signature: Bytes,
}

#[derive(Debug, Deserialize)]
struct MessageDigest {
    algorithm: String,
    digest: Bytes,
}

/// The verification material of the signer.
pub(super) enum Material {
    /// A key, which the verifier must have. The bundle contains only a hint of it.
    Key,
    Certificate(Certified),
}

/// A certificate with the evidence of when it was used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Certified {
    /// The certificate in DER.
    pub certificate: Vec<u8>,
    /// Transparency log entries.
    pub entries: Vec<Entry>,
    /// Responses of timestamp authorities, in DER, not parsed.
    pub timestamps: Vec<Vec<u8>>,
}

/// The signed content.
pub(super) enum Content {
    /// Bytes with this digest.
    Message { digest: Digest, signature: Vec<u8> },
    /// A DSSE envelope.
    Envelope(Envelope),
}

/// Versions of the format; each has its own rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Version {
    V0_1,
    V0_2,
    V0_3,
}

impl Document {
    /// Parses a bundle.
    ///
    /// # Errors
    /// The bytes are not a bundle. The text completes a sentence about them.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > LARGEST {
            return Err("is larger than 1 MiB, the limit for a Sigstore bundle".to_owned());
        }
        serde_json::from_slice(bytes).map_err(|error| {
            let words = shown(&error.to_string());
            format!("is not a Sigstore bundle: {words}")
        })
    }

    fn version(&self) -> Result<Version, String> {
        let rest = self.media_type.strip_prefix(MEDIA_TYPE_PREFIX);
        match rest {
            Some("+json;version=0.1" | ".v0.1+json") => Ok(Version::V0_1),
            Some("+json;version=0.2" | ".v0.2+json") => Ok(Version::V0_2),
            Some("+json;version=0.3" | ".v0.3+json") => Ok(Version::V0_3),
            _ => Err(format!(
                "is a '{}'; kubexm supports Sigstore bundles up to version 0.3",
                shown(&self.media_type)
            )),
        }
    }

    /// Returns the verification material.
    ///
    /// # Errors
    /// There is not exactly one kind of material, or it cannot be read.
    pub fn material(&self) -> Result<Material, String> {
        let version = self.version()?;
        let material = &self.verification_material;
        let ways = (
            &material.public_key,
            &material.certificate,
            &material.x509_certificate_chain,
        );
        let certificate = match ways {
            (Some(_), None, None) => return Ok(Material::Key),
            (None, Some(certificate), None) => certificate,
            // The first certificate is the signer's. Those above it are taken from the trusted root only.
            (None, None, Some(chain)) if version < Version::V0_3 => chain.signer()?,
            _ => return Err("does not have exactly one kind of verification material".to_owned()),
        };
        if certificate.raw_bytes.0.len() > LONGEST_CERTIFICATE {
            return Err("has a certificate that is larger than 64 KiB".to_owned());
        }
        if material.tlog_entries.len() > MOST_ENTRIES {
            return Err(format!("has more than {MOST_ENTRIES} log entries"));
        }
        let wants_proof = version > Version::V0_1;
        let entries = material.tlog_entries.iter();
        let entries = entries.map(|entry| entry.entry(wants_proof));
        Ok(Material::Certificate(Certified {
            certificate: certificate.raw_bytes.0.clone(),
            entries: entries.collect::<Result<_, _>>()?,
            timestamps: material.timestamps()?,
        }))
    }

    /// Returns the signed content.
    ///
    /// # Errors
    /// There is not exactly one kind of content, or it cannot be read.
    pub fn content(self) -> Result<Content, String> {
        match (self.message_signature, self.dsse_envelope) {
            (Some(message), None) => {
                let MessageDigest {
                    algorithm,
                    digest: bytes,
                } = message.message_digest;
                let known = digest(&bytes.0).filter(|_| algorithm == "SHA2_256");
                let digest = known.ok_or("has a message digest that is not SHA-256")?;
                Ok(Content::Message {
                    digest,
                    signature: signature(message.signature)?,
                })
            }
            (None, Some(envelope)) => Ok(Content::Envelope(envelope)),
            _ => Err("does not have exactly one kind of signed content".to_owned()),
        }
    }
}

impl Chain {
    /// Returns the signer's certificate, which is the first one.
    ///
    /// # Errors
    /// There is none, or the chain has a root certificate: roots come from the trusted root only.
    fn signer(&self) -> Result<&Certificate, String> {
        for certificate in &self.certificates {
            let (_, parsed) = X509Certificate::from_der(&certificate.raw_bytes.0)
                .map_err(|_| "has a certificate that cannot be read")?;
            if parsed.is_ca() && parsed.issuer().as_raw() == parsed.subject().as_raw() {
                return Err("has a root certificate in its certificate chain".to_owned());
            }
        }
        let signer = self.certificates.first();
        signer.ok_or_else(|| "has an empty certificate chain".to_owned())
    }
}

impl MaterialDocument {
    fn timestamps(&self) -> Result<Vec<Vec<u8>>, String> {
        let all = self.timestamp_verification_data.as_ref();
        let all = all.map_or(&[][..], |data| &data.rfc3161_timestamps);
        if all.len() > MOST_TIMESTAMPS {
            return Err(format!("has more than {MOST_TIMESTAMPS} timestamps"));
        }
        let timestamps = all.iter().map(|one| one.signed_timestamp.0.clone());
        Ok(timestamps.collect())
    }
}

/// Checks the length of a signature.
pub(super) fn signature(bytes: Bytes) -> Result<Vec<u8>, String> {
    if (1..=LONGEST_SIGNATURE).contains(&bytes.0.len()) {
        Ok(bytes.0)
    } else {
        Err("has a signature that is empty or too long".to_owned())
    }
}

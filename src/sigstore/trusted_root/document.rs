//! The JSON form of a trusted root, with the JSON mapping of protobuf
//! (<https://github.com/sigstore/protobuf-specs/blob/main/protos/sigstore_trustroot.proto>).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use x509_parser::asn1_rs::FromDer;
use x509_parser::certificate::X509Certificate;

use crate::text::shown;

/// Maximum number of logs, of authorities and of certificates in a chain.
const MOST: usize = 64;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Document {
    #[serde(default)]
    pub tlogs: Vec<LogDocument>,
    #[serde(default)]
    pub certificate_authorities: Vec<AuthorityDocument>,
    #[serde(default)]
    pub ctlogs: Vec<LogDocument>,
    #[serde(default)]
    pub timestamp_authorities: Vec<AuthorityDocument>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LogDocument {
    pub public_key: KeyDocument,
    pub log_id: Option<LogIdDocument>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LogIdDocument {
    pub key_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KeyDocument {
    pub raw_bytes: String,
    pub valid_for: Option<PeriodDocument>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AuthorityDocument {
    cert_chain: ChainDocument,
    pub valid_for: Option<PeriodDocument>,
}

#[derive(Deserialize)]
struct ChainDocument {
    certificates: Vec<CertificateDocument>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CertificateDocument {
    raw_bytes: String,
}

#[derive(Deserialize)]
pub(super) struct PeriodDocument {
    pub start: Option<String>,
    pub end: Option<String>,
}

pub(super) struct Link {
    pub der: Vec<u8>,
    /// Whether it is a CA certificate.
    pub is_authority: bool,
}

impl Document {
    /// Parses a trusted root.
    ///
    /// # Errors
    /// The bytes are not a trusted root. The text completes a sentence about them.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let document: Self = serde_json::from_slice(bytes).map_err(|error| {
            format!(
                "is not a trusted root of Sigstore: {}",
                shown(&error.to_string())
            )
        })?;
        let counts = [
            document.tlogs.len(),
            document.certificate_authorities.len(),
            document.ctlogs.len(),
            document.timestamp_authorities.len(),
        ];
        if counts.iter().any(|count| *count > MOST) {
            Err("has more than 64 logs or authorities of one kind".to_owned())
        } else {
            Ok(document)
        }
    }
}

impl AuthorityDocument {
    /// Returns the certificates of the chain, each issued by the next one.
    ///
    /// # Errors
    /// The chain is empty, or a certificate cannot be read.
    pub fn chain(&self) -> Result<Vec<Link>, String> {
        let certificates = &self.cert_chain.certificates;
        if certificates.is_empty() || certificates.len() > MOST {
            return Err("has an authority without certificates".to_owned());
        }
        let link = |certificate: &CertificateDocument| {
            let der = decode(&certificate.raw_bytes)?;
            let (_, parsed) = X509Certificate::from_der(&der)
                .map_err(|_| "has a certificate that cannot be read".to_owned())?;
            let is_authority = parsed.is_ca();
            Ok(Link { der, is_authority })
        };
        certificates.iter().map(link).collect()
    }
}

/// Decodes base64.
pub(super) fn decode(text: &str) -> Result<Vec<u8>, String> {
    STANDARD
        .decode(text)
        .map_err(|_| "has a key or certificate that is not valid base64".to_owned())
}

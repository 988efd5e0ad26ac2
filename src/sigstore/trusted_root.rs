//! Whose word counts: the authorities that certify signers, and the logs that say when they signed, in
//! the document that Sigstore's own tools take
//! (<https://github.com/sigstore/protobuf-specs/blob/main/protos/sigstore_trustroot.proto>).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use x509_parser::asn1_rs::FromDer;
use x509_parser::certificate::X509Certificate;

use super::{shown, transparency};
use crate::spec::{Digest, VerifyingKey};

/// The public instance's roots. They change every few years. Taken from the trusted root that the
/// projects sigstore-go 1.4.0, cosign 2.5.0 and sigstore-rs 0.15.0 ship, where they are the same; the
/// authorities that only sign timestamps are left out.
const PUBLIC_INSTANCE: &str = include_str!("../../manifests/sigstore/trusted_root.json");
/// Such a document is no larger, in bytes.
pub const LARGEST: usize = 1024 * 1024;
/// More than any Sigstore has had.
const MOST: usize = 64;

/// Authorities and logs that are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedRoot {
    authorities: Vec<Authority>,
    logs: Vec<Log>,
    /// Of certificates. Where there are none, certificates need not be in one.
    certificate_logs: Vec<Log>,
    /// Of the document, where it is not the one in the program.
    digest: Option<Digest>,
}

/// A chain of certificates, from the one that issues to the root. It is trusted as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Authority {
    chain: Vec<Vec<u8>>,
    period: Period,
}

/// A log that only ever grows, of signatures or of certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Log {
    /// SHA-256 of its key.
    pub id: Digest,
    /// Its key.
    pub key: VerifyingKey,
    /// When it is trusted.
    pub period: Period,
}

/// Seconds since 1970, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Period {
    start: i64,
    end: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(default)]
    tlogs: Vec<LogDocument>,
    #[serde(default)]
    certificate_authorities: Vec<AuthorityDocument>,
    #[serde(default)]
    ctlogs: Vec<LogDocument>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogDocument {
    public_key: KeyDocument,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeyDocument {
    raw_bytes: String,
    valid_for: Option<PeriodDocument>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthorityDocument {
    cert_chain: ChainDocument,
    valid_for: Option<PeriodDocument>,
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
struct PeriodDocument {
    start: Option<String>,
    end: Option<String>,
}

impl TrustedRoot {
    /// The roots of the public instance (<https://docs.sigstore.dev>), pinned in this program.
    ///
    /// # Errors
    /// The program was built with others that cannot be read.
    pub fn public_instance() -> Result<Self, String> {
        let root = Self::parse(PUBLIC_INSTANCE.as_bytes())?;
        Ok(Self {
            digest: None,
            ..root
        })
    }

    /// Reads a trusted root.
    ///
    /// # Errors
    /// It is none, or has no authority or no log, as the rest of a sentence about it.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > LARGEST {
            return Err("is larger than any trusted root".to_owned());
        }
        let document: Document = serde_json::from_slice(bytes).map_err(|error| {
            format!(
                "is no trusted root of Sigstore: {}",
                shown(&error.to_string())
            )
        })?;
        let counts = [
            document.tlogs.len(),
            document.certificate_authorities.len(),
            document.ctlogs.len(),
        ];
        if counts.iter().any(|count| *count > MOST) {
            return Err("has more logs or authorities than any Sigstore".to_owned());
        }
        let authorities: Vec<Authority> = document
            .certificate_authorities
            .iter()
            .map(Authority::read)
            .collect::<Result<_, _>>()?;
        // Newer logs may have keys of a kind that signs no promises: they are of no use here.
        let logs = |documents: &[LogDocument]| -> Result<Vec<Log>, String> {
            let logs = documents
                .iter()
                .map(Log::read)
                .filter_map(Result::transpose);
            logs.collect()
        };
        let certificate_logs = logs(&document.ctlogs)?;
        if certificate_logs.is_empty() && !document.ctlogs.is_empty() {
            return Err("names no log of certificates that can be used".to_owned());
        }
        let logs = logs(&document.tlogs)?;
        if authorities.is_empty() || logs.is_empty() {
            return Err("names no certificate authority, or no log that can be used".to_owned());
        }
        Ok(Self {
            authorities,
            logs,
            certificate_logs,
            digest: Some(Digest::of(bytes)),
        })
    }

    /// SHA-256 of the document; none where it is the one in the program.
    pub fn own_digest(&self) -> Option<Digest> {
        self.digest
    }

    /// The key of a log that was trusted at that time.
    pub(super) fn log(&self, id: &Digest, time: i64) -> Option<&VerifyingKey> {
        let mut logs = self.logs.iter();
        let log = logs.find(|log| log.id == *id && log.period.contains(time));
        log.map(|log| &log.key)
    }

    /// Whether an authority that was trusted at that time issued the certificate, and one of the logs
    /// that it must be in has seen it. `der` is all of it.
    pub(super) fn must_have_issued(
        &self,
        certificate: &X509Certificate<'_>,
        der: &[u8],
        time: i64,
    ) -> Result<(), String> {
        let mut authorities = self.authorities.iter();
        let issued = authorities.find(|authority| authority.issued(certificate, time));
        let issuer = issued.and_then(|authority| authority.chain.first());
        let Some((_, issuer)) = issuer.and_then(|der| X509Certificate::from_der(der).ok()) else {
            return Err(format!(
                "its certificate is by no authority that is trusted; it says that '{}' issued it",
                shown(&certificate.issuer().to_string())
            ));
        };
        if self.certificate_logs.is_empty() {
            return Ok(());
        }
        transparency::must_be_seen(certificate, der, &issuer, &self.certificate_logs)
    }
}

impl Authority {
    fn read(document: &AuthorityDocument) -> Result<Self, String> {
        let mut chain = Vec::new();
        for certificate in &document.cert_chain.certificates {
            let der = decode(&certificate.raw_bytes)?;
            let (_, parsed) = X509Certificate::from_der(&der)
                .map_err(|_| "has a certificate that cannot be read".to_owned())?;
            if !parsed.is_ca() {
                return Err("has a certificate of no authority".to_owned());
            }
            chain.push(der);
        }
        match chain.is_empty() || chain.len() > MOST {
            true => Err("has an authority without certificates".to_owned()),
            false => Ok(Self {
                chain,
                period: Period::read(document.valid_for.as_ref())?,
            }),
        }
    }

    fn issued(&self, certificate: &X509Certificate<'_>, time: i64) -> bool {
        if !self.period.contains(time) {
            return false;
        }
        let parse = |der| X509Certificate::from_der(der).map(|(_, parsed)| parsed);
        let Ok(chain) = self
            .chain
            .iter()
            .map(|der| parse(der))
            .collect::<Result<Vec<_>, _>>()
        else {
            return false;
        };
        let links = std::iter::once(certificate).chain(&chain).zip(&chain);
        links.into_iter().all(|(below, above)| {
            let validity = above.validity();
            let period = validity.not_before.timestamp()..=validity.not_after.timestamp();
            period.contains(&time) && is_issued_by(below, above)
        })
    }
}

fn is_issued_by(certificate: &X509Certificate<'_>, authority: &X509Certificate<'_>) -> bool {
    let key = VerifyingKey::from_der(authority.public_key().raw);
    certificate.issuer().as_raw() == authority.subject().as_raw()
        && key.is_ok_and(|key| {
            key.verifies(
                certificate.tbs_certificate.as_ref(),
                &certificate.signature_value.data,
            )
        })
}

impl Log {
    fn read(document: &LogDocument) -> Result<Option<Self>, String> {
        let der = decode(&document.public_key.raw_bytes)?;
        let period = Period::read(document.public_key.valid_for.as_ref())?;
        let log = VerifyingKey::from_der(&der).ok().map(|key| Self {
            id: key.fingerprint(),
            key,
            period,
        });
        Ok(log)
    }
}

impl Period {
    fn read(document: Option<&PeriodDocument>) -> Result<Self, String> {
        let seconds = |text: &Option<String>, open: i64| match text {
            None => Ok(open),
            Some(text) => OffsetDateTime::parse(text, &Rfc3339)
                .map(OffsetDateTime::unix_timestamp)
                .map_err(|_| format!("has a time '{}' that is none", shown(text))),
        };
        Ok(match document {
            None => Self {
                start: i64::MIN,
                end: i64::MAX,
            },
            Some(document) => Self {
                start: seconds(&document.start, i64::MIN)?,
                end: seconds(&document.end, i64::MAX)?,
            },
        })
    }

    /// Whether it was then.
    pub fn contains(self, time: i64) -> bool {
        (self.start..=self.end).contains(&time)
    }
}

fn decode(text: &str) -> Result<Vec<u8>, String> {
    STANDARD
        .decode(text)
        .map_err(|_| "has a key or certificate that is no base64".to_owned())
}

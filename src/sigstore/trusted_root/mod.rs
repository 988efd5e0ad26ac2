//! Whose word counts: the authorities that certify signers, and the logs that say when they signed, in
//! the document that Sigstore's own tools take
//! (<https://github.com/sigstore/protobuf-specs/blob/main/protos/sigstore_trustroot.proto>).

mod authority;
mod document;
mod log;
mod period;
mod timestamp_authority;

use x509_parser::certificate::X509Certificate;

use super::timestamp::Timestamp;
use super::{shown, transparency};
use authority::Authority;
use document::{Document, LogDocument};
use kubexm_types::Digest;
use timestamp_authority::TimestampAuthority;

pub(super) use log::Log;

/// The public instance's roots, as Sigstore published them on the 21st of August 2026
/// (<https://github.com/sigstore/root-signing/blob/main/targets/trusted_root.json>). They change every
/// few years.
const PUBLIC_INSTANCE: &str = include_str!("../../../manifests/sigstore/trusted_root.json");
/// Such a document is no larger, in bytes.
pub const LARGEST: usize = 1024 * 1024;

/// Authorities and logs that are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedRoot {
    authorities: Vec<Authority>,
    logs: Vec<Log>,
    /// Of certificates. Where there are none, certificates need not be in one.
    certificate_logs: Vec<Log>,
    timestamp_authorities: Vec<TimestampAuthority>,
    /// Of the document, where it is not the one in the program.
    digest: Option<Digest>,
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
        let document = Document::read(bytes)?;
        let authorities: Vec<Authority> = document
            .certificate_authorities
            .iter()
            .map(Authority::read)
            .collect::<Result<_, _>>()?;
        // Newer logs may have keys of a kind that is not taken: they are of no use here.
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
        let timestamp_authorities = document
            .timestamp_authorities
            .iter()
            .map(TimestampAuthority::read)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            authorities,
            logs,
            certificate_logs,
            timestamp_authorities,
            digest: Some(Digest::of(bytes)),
        })
    }

    /// SHA-256 of the document; none where it is the one in the program.
    pub fn own_digest(&self) -> Option<Digest> {
        self.digest
    }

    /// A log that was trusted at all these times, in seconds since 1970.
    pub(super) fn log(&self, id: &Digest, times: &[i64]) -> Option<&Log> {
        let mut logs = self.logs.iter();
        logs.find(|log| log.id == *id && times.iter().all(|time| log.period.contains(*time)))
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
        let Some(issuer) = issued.and_then(Authority::issuer) else {
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

    /// Whether an authority that was trusted then made the timestamp.
    ///
    /// # Errors
    /// None did.
    pub(super) fn must_have_stamped(&self, timestamp: &Timestamp) -> Result<(), String> {
        let mut told = "its timestamp is by no authority that is trusted".to_owned();
        for authority in &self.timestamp_authorities {
            let Some(signer) = authority.signer(timestamp) else {
                continue;
            };
            match authority.must_allow(signer, timestamp.time()) {
                Ok(()) => return Ok(()),
                Err(reason) => told = reason,
            }
        }
        Err(told)
    }
}

//! The trusted root of a Sigstore instance: its certificate authorities, logs and timestamp authorities,
//! in the format of Sigstore's own tools
//! (<https://github.com/sigstore/protobuf-specs/blob/main/protos/sigstore_trustroot.proto>).

mod authority;
mod document;
mod log;
mod period;
mod timestamp_authority;

use crate::cause::Cause;
use x509_parser::certificate::X509Certificate;

use super::text::{at, shown};
use super::timestamp::Timestamp;
use super::transparency;
use authority::Authority;
use document::{Document, LogDocument};
use kubexm_types::Digest;
use timestamp_authority::TimestampAuthority;

pub(super) use log::Log;

/// The trusted root of the public instance, as Sigstore published it on 21 August 2026
/// (<https://github.com/sigstore/root-signing/blob/main/targets/trusted_root.json>). It changes every few
/// years.
const PUBLIC_INSTANCE: &str = include_str!("../../../manifests/sigstore/trusted_root.json");
/// A log that the trusted root does not contain, in the reason why a signature is not accepted.
pub(super) const UNKNOWN_LOG: &str = "an unknown transparency log";
/// Maximum size of a trusted root, in bytes.
pub const LARGEST: usize = 1024 * 1024;

/// The trusted authorities and logs of a Sigstore instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedRoot {
    authorities: Vec<Authority>,
    logs: Vec<Log>,
    /// Certificate transparency logs. If there are none, certificates need no SCT.
    certificate_logs: Vec<Log>,
    timestamp_authorities: Vec<TimestampAuthority>,
    /// Digest of the document, unless it is the one in the program.
    digest: Option<Digest>,
}

impl TrustedRoot {
    /// Returns the root of the public instance (<https://docs.sigstore.dev>), built into the program.
    ///
    /// # Errors
    /// The built-in document cannot be read.
    pub fn public_instance() -> Result<Self, String> {
        let root = Self::parse(PUBLIC_INSTANCE.as_bytes())?;
        Ok(Self {
            digest: None,
            ..root
        })
    }

    /// Parses a trusted root.
    ///
    /// # Errors
    /// The bytes are not a trusted root, or it has no authority or no usable log. The text completes a
    /// sentence about it.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > LARGEST {
            return Err("is larger than 1 MiB, the limit for a trusted root".to_owned());
        }
        let document = Document::read(bytes)?;
        let authorities: Vec<Authority> = document
            .certificate_authorities
            .iter()
            .map(Authority::read)
            .collect::<Result<_, _>>()?;
        // Logs with unsupported key types are ignored: newer logs may have them.
        let logs = |documents: &[LogDocument]| -> Result<Vec<Log>, String> {
            let logs = documents
                .iter()
                .map(Log::read)
                .filter_map(Result::transpose);
            logs.collect()
        };
        let certificate_logs = logs(&document.ctlogs)?;
        if certificate_logs.is_empty() && !document.ctlogs.is_empty() {
            return Err("has no usable certificate transparency log".to_owned());
        }
        let logs = logs(&document.tlogs)?;
        if authorities.is_empty() || logs.is_empty() {
            return Err("has no certificate authority or no usable log".to_owned());
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

    /// Returns SHA-256 of the document, or `None` for the one in the program.
    pub fn own_digest(&self) -> Option<Digest> {
        self.digest
    }

    /// Returns the log with this ID, if it was trusted at all these times, in seconds since 1970.
    ///
    /// # Errors
    /// The trusted root does not contain the log, or the log was not trusted at one of the times.
    pub(super) fn log(&self, id: &Digest, times: &[i64]) -> Result<&Log, Cause> {
        let of_id = || self.logs.iter().filter(|log| log.id == *id);
        if of_id().next().is_none() {
            return Err(Cause::of_unknown_log(format!(
                "its entry is in {UNKNOWN_LOG} with the ID {}",
                id.hex()
            )));
        }
        of_id()
            .find(|log| times.iter().all(|time| log.period.contains(*time)))
            .ok_or_else(|| {
                let times: Vec<String> = times.iter().map(|time| at(*time)).collect();
                let times = times.join(" and ");
                format!("its entry of {times} is in a log that is not trusted for that time").into()
            })
    }

    /// Checks that an authority that was trusted at that time issued the certificate, and that a trusted
    /// certificate transparency log recorded it. `der` is the whole certificate.
    pub(super) fn must_have_issued(
        &self,
        certificate: &X509Certificate<'_>,
        der: &[u8],
        time: i64,
    ) -> Result<(), Cause> {
        let mut authorities = self.authorities.iter();
        let issued = authorities.find(|authority| authority.issued(certificate, time));
        let Some(issuer) = issued.and_then(Authority::issuer) else {
            return Err(format!(
                "no trusted authority issued its certificate; the certificate names '{}' as its issuer",
                shown(&certificate.issuer().to_string())
            )
            .into());
        };
        if self.certificate_logs.is_empty() {
            return Ok(());
        }
        transparency::must_be_seen(certificate, der, &issuer, &self.certificate_logs)
    }

    /// Checks that an authority made the timestamp while it was trusted.
    ///
    /// # Errors
    /// The reason why no authority did.
    pub(super) fn must_have_stamped(&self, timestamp: &Timestamp) -> Result<(), String> {
        let mut told = "its timestamp is not from a trusted authority".to_owned();
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

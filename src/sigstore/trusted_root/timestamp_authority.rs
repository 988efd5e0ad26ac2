//! An authority that says when something was there (RFC 3161, 2).

use x509_parser::asn1_rs::FromDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::ParsedExtension;

use super::authority::{Authority, is_issued_by};
use super::document::AuthorityDocument;
use super::period::Period;
use crate::at;
use crate::timestamp::Timestamp;

/// An authority for timestamps that is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TimestampAuthority {
    /// The certificate whose key makes the timestamps. Where the document does not name it, timestamps
    /// bring their own.
    signer: Option<Vec<u8>>,
    /// Who issued it.
    above: Authority,
}

impl TimestampAuthority {
    /// Reads an authority.
    ///
    /// # Errors
    /// It cannot be read, or nobody stands above who makes the timestamps.
    pub fn read(document: &AuthorityDocument) -> Result<Self, String> {
        let mut chain = document.chain()?;
        let signer = match chain[0].is_authority {
            true => None,
            false => Some(chain.remove(0).der),
        };
        if chain.is_empty() {
            return Err("has a timestamp authority whose certificate nobody issued".to_owned());
        }
        let period = Period::read(document.valid_for.as_ref())?;
        let above = Authority::new(chain, period)?;
        Ok(Self { signer, above })
    }

    /// The certificate whose key made a timestamp, where it is one of this authority's, whenever that was.
    pub fn signer<'a>(&'a self, timestamp: &'a Timestamp) -> Option<&'a [u8]> {
        let issuer = self.above.issuer()?;
        let signers = match &self.signer {
            Some(signer) => std::slice::from_ref(signer),
            None => timestamp.certificates(),
        };
        let mut signers = signers.iter().map(Vec::as_slice);
        signers.find(|der| {
            let parsed = X509Certificate::from_der(der);
            parsed.is_ok_and(|(_, parsed)| is_issued_by(&parsed, &issuer))
                && timestamp.is_signed_by(der)
        })
    }

    /// Whether the holder of a certificate might make timestamps at that time, in seconds since 1970.
    ///
    /// # Errors
    /// Why not.
    pub fn must_allow(&self, signer: &[u8], time: i64) -> Result<(), String> {
        let (_, signer) = X509Certificate::from_der(signer)
            .map_err(|_| "its timestamp's certificate cannot be read".to_owned())?;
        if !is_for_timestamps(&signer) {
            return Err("its timestamp is by a certificate that is not for timestamps".to_owned());
        }
        let validity = signer.validity();
        let period = validity.not_before.timestamp()..=validity.not_after.timestamp();
        match period.contains(&time) && self.above.issued(&signer, time) {
            true => Ok(()),
            false => Err(format!(
                "its timestamp is of {}, when its authority was not trusted",
                at(time)
            )),
        }
    }
}

/// Certificates that make timestamps are for nothing else, and say so to everybody (RFC 3161, 2.3).
fn is_for_timestamps(certificate: &X509Certificate<'_>) -> bool {
    let may_sign = certificate.key_usage().ok().flatten();
    let may_sign = may_sign
        .is_none_or(|usage| usage.value.digital_signature() || usage.value.non_repudiation());
    let extensions = certificate.extensions().iter();
    let mut usages = extensions.filter_map(|extension| match extension.parsed_extension() {
        ParsedExtension::ExtendedKeyUsage(usage) => Some((extension.critical, usage)),
        _ => None,
    });
    let is_only = usages.next().is_some_and(|(critical, usage)| {
        let others = usage.any
            || usage.server_auth
            || usage.client_auth
            || usage.code_signing
            || usage.email_protection
            || usage.ocsp_signing
            || !usage.other.is_empty();
        critical && usage.time_stamping && !others
    });
    may_sign && is_only && usages.next().is_none()
}

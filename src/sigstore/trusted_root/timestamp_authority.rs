//! Timestamp authorities (RFC 3161, 2).

use x509_parser::asn1_rs::FromDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::ParsedExtension;

use super::authority::{Authority, is_issued_by};
use super::document::AuthorityDocument;
use super::period::Period;
use crate::text::at;
use crate::timestamp::Timestamp;

/// A trusted timestamp authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TimestampAuthority {
    /// The certificate whose key signs timestamps. If the document does not have it, each timestamp contains
    /// its own.
    signer: Option<Vec<u8>>,
    /// The authority that issued the certificate.
    above: Authority,
}

impl TimestampAuthority {
    /// Converts the document of an authority.
    ///
    /// # Errors
    /// It cannot be read, or the chain has no issuer of the signing certificate.
    pub fn read(document: &AuthorityDocument) -> Result<Self, String> {
        let mut chain = document.chain()?;
        let signer = if chain[0].is_authority {
            None
        } else {
            Some(chain.remove(0).der)
        };
        if chain.is_empty() {
            return Err(
                "has a timestamp authority without the issuer of its certificate".to_owned(),
            );
        }
        let period = Period::read(document.valid_for.as_ref())?;
        let above = Authority::new(chain, period)?;
        Ok(Self { signer, above })
    }

    /// Returns the certificate of this authority whose key signed the timestamp, at whatever time.
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

    /// Checks that a certificate permits timestamps at that time, in seconds since 1970.
    ///
    /// # Errors
    /// The reason why it does not.
    pub fn must_allow(&self, signer: &[u8], time: i64) -> Result<(), String> {
        let (_, signer) = X509Certificate::from_der(signer)
            .map_err(|_| "its timestamp's certificate cannot be read".to_owned())?;
        if !is_for_timestamps(&signer) {
            return Err(
                "its timestamp is signed with a certificate that is not for timestamps".to_owned(),
            );
        }
        let validity = signer.validity();
        let period = validity.not_before.timestamp()..=validity.not_after.timestamp();
        if period.contains(&time) && self.above.issued(&signer, time) {
            Ok(())
        } else {
            Err(format!(
                "its timestamp was made at {}, when its authority was not trusted",
                at(time)
            ))
        }
    }
}

/// Whether the certificate has only the critical extended key usage for timestamps (RFC 3161, 2.3).
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

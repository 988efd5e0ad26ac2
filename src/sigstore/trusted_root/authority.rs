//! Certificate authorities.

use x509_parser::asn1_rs::FromDer;
use x509_parser::certificate::X509Certificate;

use super::document::{AuthorityDocument, Link};
use super::period::Period;
use kubexm_types::VerifyingKey;

/// A certificate chain from the issuing certificate to the root. The chain itself is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Authority {
    chain: Vec<Vec<u8>>,
    period: Period,
}

impl Authority {
    /// Converts the document of an authority for signers' certificates.
    ///
    /// # Errors
    /// It cannot be read, or a certificate is not a CA certificate.
    pub fn read(document: &AuthorityDocument) -> Result<Self, String> {
        let period = Period::read(document.valid_for.as_ref())?;
        Self::new(document.chain()?, period)
    }

    /// Creates an authority with this chain.
    ///
    /// # Errors
    /// A certificate of the chain is not a CA certificate.
    pub fn new(chain: Vec<Link>, period: Period) -> Result<Self, String> {
        if chain.iter().all(|link| link.is_authority) {
            Ok(Self {
                chain: chain.into_iter().map(|link| link.der).collect(),
                period,
            })
        } else {
            Err("has a certificate in a chain that is not a CA certificate".to_owned())
        }
    }

    /// Returns the issuing certificate.
    pub fn issuer(&self) -> Option<X509Certificate<'_>> {
        let (_, issuer) = X509Certificate::from_der(self.chain.first()?).ok()?;
        Some(issuer)
    }

    /// Whether the authority issued the certificate, and was trusted and valid at that time, in seconds
    /// since 1970.
    pub fn issued(&self, certificate: &X509Certificate<'_>, time: i64) -> bool {
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

/// Whether the key of `authority` signed the certificate.
pub(super) fn is_issued_by(
    certificate: &X509Certificate<'_>,
    authority: &X509Certificate<'_>,
) -> bool {
    let key = VerifyingKey::from_der(authority.public_key().raw);
    certificate.issuer().as_raw() == authority.subject().as_raw()
        && key.is_ok_and(|key| {
            key.verifies(
                certificate.tbs_certificate.as_ref(),
                &certificate.signature_value.data,
            )
        })
}

//! What certificates and keys contain: digests, names, and the end of the validity.

use std::collections::BTreeSet;
use std::net::IpAddr;

use rcgen::{KeyPair, PublicKeyData};
use time::OffsetDateTime;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

use crate::error::{PkiError, invalid};
use crate::store::CertificateStore;
use kubexm_types::Digest;

/// Returns the fingerprint of the CA `name` in the store; `None` if the store does not have its certificate.
///
/// # Errors
/// The certificate cannot be read, or is invalid.
pub fn ca_fingerprint(store: &CertificateStore, name: &str) -> Result<Option<Digest>, PkiError> {
    let text = store.read(&format!("{name}.crt"))?;
    text.map(|text| Ok(Digest::of(&pem_content(name, &text)?)))
        .transpose()
}

/// Returns the fingerprint of the public key of the key pair `name` in the store; `None` if the store does not
/// have it.
///
/// # Errors
/// The key cannot be read, or is invalid.
pub fn key_fingerprint(store: &CertificateStore, name: &str) -> Result<Option<Digest>, PkiError> {
    let fingerprint = |text: String| {
        let key = KeyPair::from_pem(&text).map_err(|error| invalid(name, error))?;
        Ok(Digest::of(&key.subject_public_key_info()))
    };
    store
        .read(&format!("{name}.key"))?
        .map(fingerprint)
        .transpose()
}

/// Returns kubeadm's pin of a CA: the digest of its public key
/// (<https://kubernetes.io/docs/reference/setup-tools/kubeadm/kubeadm-join/#token-based-discovery-with-ca-pinning>).
///
/// # Errors
/// The text is not a certificate in PEM.
pub fn public_key_pin(certificate: &str) -> Result<String, PkiError> {
    let der = pem_content("CA certificate", certificate)?;
    let (_, parsed) = x509_parser::parse_x509_certificate(&der)
        .map_err(|error| invalid("CA certificate", error))?;
    Ok(Digest::of(parsed.tbs_certificate.subject_pki.raw).to_string())
}

pub(crate) fn pem_content(what: &str, text: &str) -> Result<Vec<u8>, PkiError> {
    let (_, pem) =
        x509_parser::pem::parse_x509_pem(text.as_bytes()).map_err(|e| invalid(what, e))?;
    Ok(pem.contents)
}

/// Returns the DNS names and addresses that a certificate is for.
///
/// # Errors
/// The text is not a certificate in PEM.
pub fn certificate_names(what: &str, certificate: &str) -> Result<BTreeSet<String>, PkiError> {
    let der = pem_content(what, certificate)?;
    let (_, parsed) =
        x509_parser::parse_x509_certificate(&der).map_err(|error| invalid(what, error))?;
    names_of(what, &parsed)
}

/// Returns the DNS names and addresses of a parsed certificate.
pub(crate) fn names_of(
    what: &str,
    parsed: &X509Certificate<'_>,
) -> Result<BTreeSet<String>, PkiError> {
    let names = parsed
        .subject_alternative_name()
        .map_err(|error| invalid(what, error))?;
    let names = names
        .into_iter()
        .flat_map(|names| &names.value.general_names);
    let text = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => Some(IpAddr::from(<[u8; 4]>::try_from(*bytes).ok()?).to_string()),
            16 => Some(IpAddr::from(<[u8; 16]>::try_from(*bytes).ok()?).to_string()),
            _ => None,
        },
        _ => None,
    };
    Ok(names.filter_map(text).collect())
}

/// Returns how long a certificate is valid from its beginning to its end, in days, rounded to the nearest day.
///
/// # Errors
/// The text is not a certificate in PEM.
pub fn days_valid(what: &str, certificate: &str) -> Result<i64, PkiError> {
    let der = pem_content(what, certificate)?;
    let (_, parsed) =
        x509_parser::parse_x509_certificate(&der).map_err(|error| invalid(what, error))?;
    let validity = parsed.validity();
    let seconds = validity.not_after.timestamp() - validity.not_before.timestamp();
    // Certificates begin a little before they are issued, because clocks differ.
    Ok((seconds + 43_200).div_euclid(86_400))
}

/// Returns the number of whole days until a certificate expires; negative if it has expired.
///
/// # Errors
/// The text is not a certificate in PEM.
pub fn days_left(what: &str, certificate: &str) -> Result<i64, PkiError> {
    let left = expiry(what, certificate)? - OffsetDateTime::now_utc();
    Ok(left.whole_seconds().div_euclid(86_400))
}

/// Returns when a certificate expires.
///
/// # Errors
/// The text is not a certificate in PEM.
pub fn expiry(what: &str, certificate: &str) -> Result<OffsetDateTime, PkiError> {
    let der = pem_content(what, certificate)?;
    let (_, parsed) =
        x509_parser::parse_x509_certificate(&der).map_err(|error| invalid(what, error))?;
    Ok(parsed.validity().not_after.to_datetime())
}

/// Returns the beginning of the validity of a certificate.
///
/// # Errors
/// The text is not a certificate in PEM.
pub(crate) fn begins(what: &str, certificate: &str) -> Result<OffsetDateTime, PkiError> {
    let der = pem_content(what, certificate)?;
    let (_, parsed) =
        x509_parser::parse_x509_certificate(&der).map_err(|error| invalid(what, error))?;
    Ok(parsed.validity().not_before.to_datetime())
}

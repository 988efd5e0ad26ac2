//! Digests of certificates and keys.

use crate::error::{PkiError, invalid};
use crate::rotation;
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
    let public = rotation::public_key(store, name)?;
    public
        .map(|text| Ok(Digest::of(&pem_content(name, &text)?)))
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

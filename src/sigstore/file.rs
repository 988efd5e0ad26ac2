//! Signatures of files in files of their own, as `cosign sign-blob` writes them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::bundle::{Bundle, Content, SignedBy};
use super::certificate;

/// Maximum size of a signature file or a certificate file, in bytes.
pub const LARGEST: usize = 64 * 1024;

/// Converts a published signature of a file, with its certificate if there is one, to a bundle. The
/// signature has no time: kubexm checks the certificate at its time of issue. A signer that keeps the
/// short-lived key can therefore sign with it later.
///
/// # Errors
/// The signature or the certificate cannot be read.
pub fn bundle(signature: &[u8], certificate: Option<&[u8]>) -> Result<Bundle, String> {
    let signature = text(signature).and_then(|text| STANDARD.decode(text.trim()).ok());
    let certificate = certificate.map(certificate_of).transpose()?;
    Ok(Bundle {
        by: certificate.map_or(SignedBy::Key, SignedBy::CertificateWithoutTime),
        content: Content::Message(None),
        signature: signature.ok_or("its signature is not valid base64")?,
    })
}

/// Decodes a certificate in PEM, or in base64 of PEM, which Kubernetes publishes.
fn certificate_of(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let unreadable = "its certificate cannot be read";
    let text = text(bytes).ok_or(unreadable)?;
    if text.contains("-----BEGIN") {
        return certificate::from_pem(text);
    }
    let pem = STANDARD.decode(text.trim()).map_err(|_| unreadable)?;
    certificate::from_pem(std::str::from_utf8(&pem).map_err(|_| unreadable)?)
}

fn text(bytes: &[u8]) -> Option<&str> {
    let short = bytes.len() <= LARGEST;
    short.then(|| std::str::from_utf8(bytes).ok()).flatten()
}

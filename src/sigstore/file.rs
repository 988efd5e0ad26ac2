//! Signatures of files in files of their own, as `cosign sign-blob` writes them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Signer, Trust, Unverified, certificate};

/// Maximum size of a signature file or a certificate file, in bytes.
pub const LARGEST: usize = 64 * 1024;

/// Verifies a file with its published signature. The signature has no time: kubexm checks the certificate
/// at its time of issue. A signer that keeps the short-lived key can therefore sign with it later.
///
/// # Errors
/// The reason why the signature is not valid.
pub fn verify_file(
    content: &[u8],
    signature: &[u8],
    certificate: Option<&[u8]>,
    trust: Trust<'_>,
) -> Result<Signer, Unverified> {
    check(content, signature, certificate, trust).map_err(Unverified)
}

fn check(
    content: &[u8],
    signature: &[u8],
    certificate: Option<&[u8]>,
    trust: Trust<'_>,
) -> Result<Signer, String> {
    let signature = text(signature).and_then(|text| STANDARD.decode(text.trim()).ok());
    let signature = signature.ok_or("its signature is not valid base64")?;
    match trust {
        Trust::Keys(keys) => {
            let mut keys = keys.iter();
            let key = keys.find(|key| key.verifies(content, &signature));
            key.map(|key| Signer::Key(key.clone()))
                .ok_or_else(|| "it was not made with a key of the policy".to_owned())
        }
        Trust::Identity(identity, root) => {
            let certificate = certificate.ok_or("it has no certificate file")?;
            let certificate = certificate_of(certificate)?;
            let issued = certificate::begin(&certificate)?;
            let key = certificate::check(&certificate, identity, issued, root)?;
            match key.verifies(content, &signature) {
                true => Ok(Signer::of(identity, root)),
                false => Err("its signature is of other content or by another key".to_owned()),
            }
        }
    }
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

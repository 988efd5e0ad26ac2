//! Signatures that lie beside a file, as `cosign sign-blob` makes them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Signer, Trust, Unverified, certificate};

/// A signature's file or a certificate's is no longer, in bytes.
pub const LARGEST: usize = 64 * 1024;

/// Holds a file against the signature beside it, both as they are published. Nothing there says when
/// the file was signed: a certificate must have been good when it was issued, and for minutes, and who
/// keeps its key longer than that could sign with it later.
///
/// # Errors
/// Why it does not hold.
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
    let signature = signature.ok_or("its signature is no base64 of one")?;
    match trust {
        Trust::Keys(keys) => {
            let mut keys = keys.iter();
            let key = keys.find(|key| key.verifies(content, &signature));
            key.map(|key| Signer::Key(key.clone()))
                .ok_or_else(|| "no key of the policy made it".to_owned())
        }
        Trust::Identity(identity, root) => {
            let certificate = certificate.ok_or("it has no certificate beside it")?;
            let certificate = certificate_of(certificate)?;
            let issued = certificate::begin(&certificate)?;
            let key = certificate::check(&certificate, identity, issued, root)?;
            match key.verifies(content, &signature) {
                true => Ok(Signer::of(identity, root)),
                false => Err("its signature is of something else, or by another key".to_owned()),
            }
        }
    }
}

/// PEM, or base64 of it, which is what Kubernetes publishes.
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

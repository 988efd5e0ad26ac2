//! Verification of one claim: it names the image, and a trusted signer signed it.

use super::document::{self, Claim};
use super::trusted_root::TrustedRoot;
use super::{Signer, Trust, certificate, entry};
use kubexm_types::Digest;
use kubexm_types::signature_policy::Identity;

/// Returns the signer of the claim.
///
/// # Errors
/// The reason why the claim is not valid.
pub(super) fn check(
    claim: &Claim,
    payload: &[u8],
    image: &Digest,
    trust: Trust<'_>,
) -> Result<Signer, String> {
    if Digest::of(payload) != claim.payload.digest {
        return Err("the signed payload was changed".to_owned());
    }
    let named = document::image_of(payload)?;
    if named != *image {
        return Err(format!("it is a signature of {named}"));
    }
    if claim.signature.is_empty() {
        return Err("its signature is not valid base64".to_owned());
    }
    match trust {
        Trust::Keys(keys) => {
            let mut keys = keys.iter();
            let key = keys.find(|key| key.verifies(payload, &claim.signature));
            key.map(|key| Signer::Key(key.clone()))
                .ok_or_else(|| "it was not made with a key of the policy".to_owned())
        }
        Trust::Identity(identity, root) => check_identity(claim, payload, identity, root),
    }
}

fn check_identity(
    claim: &Claim,
    payload: &[u8],
    identity: &Identity,
    root: &TrustedRoot,
) -> Result<Signer, String> {
    let pem = claim
        .certificate
        .as_deref()
        .ok_or("it was made with a key and has no certificate; use a policy with that key")?;
    let certificate = certificate::from_pem(pem)?;
    let text = claim
        .entry
        .as_deref()
        .ok_or("it has no transparency log entry, so the time of signing is unknown")?;
    let entry = entry::read(text)?;
    // The identity is checked first, because a wrong identity is the most frequent error. All checks must
    // pass.
    let key = certificate::check(&certificate, identity, entry.time(), root)?;
    entry.must_be_promised(root)?;
    entry.must_be_of(payload, &claim.signature, &certificate)?;
    if !key.verifies(payload, &claim.signature) {
        return Err("its signature is of other content or by another key".to_owned());
    }
    Ok(Signer::of(identity, root))
}

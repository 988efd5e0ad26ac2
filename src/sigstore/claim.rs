//! One claim: does it name the image, and has somebody signed it who is trusted?

use super::document::{self, Claim};
use super::trusted_root::TrustedRoot;
use super::{Signer, Trust, certificate, entry};
use kubexm_types::Digest;
use kubexm_types::signature_policy::Identity;

/// Who signed the claim.
///
/// # Errors
/// Why it does not hold.
pub(super) fn check(
    claim: &Claim,
    payload: &[u8],
    image: &Digest,
    trust: Trust<'_>,
) -> Result<Signer, String> {
    if Digest::of(payload) != claim.payload.digest {
        return Err("what is signed was changed".to_owned());
    }
    let named = document::image_of(payload)?;
    if named != *image {
        return Err(format!("it is a signature of {named}"));
    }
    if claim.signature.is_empty() {
        return Err("its signature is no base64 of one".to_owned());
    }
    match trust {
        Trust::Keys(keys) => {
            let mut keys = keys.iter();
            let key = keys.find(|key| key.verifies(payload, &claim.signature));
            key.map(|key| Signer::Key(key.clone()))
                .ok_or_else(|| "no key of the policy made it".to_owned())
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
    let pem = claim.certificate.as_deref().ok_or(
        "it was made with a key and names no identity; a policy with that key would hold it",
    )?;
    let certificate = certificate::from_pem(pem)?;
    let text = claim
        .entry
        .as_deref()
        .ok_or("it has no entry of a log beside it, so nobody knows when it was made")?;
    let entry = entry::read(text)?;
    // Who it is by comes first, since a wrong name is what people look for; all of it must hold.
    let key = certificate::check(&certificate, identity, entry.time(), root)?;
    entry.must_be_promised(root)?;
    entry.must_be_of(payload, &claim.signature, &certificate)?;
    if !key.verifies(payload, &claim.signature) {
        return Err("its signature is of something else, or by another key".to_owned());
    }
    Ok(Signer::of(identity, root))
}

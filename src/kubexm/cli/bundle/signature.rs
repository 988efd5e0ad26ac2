//! The signature of a bundle in words.

use kubexm_bundling::inspect::SignatureInfo;

/// Returns who signed a bundle, and what the signature states.
pub fn line(signature: Option<&SignatureInfo>) -> String {
    let Some(signature) = signature else {
        return "none".to_owned();
    };
    let trust = if signature.verified {
        "verified"
    } else {
        "not verified, give --trust"
    };
    let revision = match (&signature.created, &signature.sequence) {
        (Some(created), Some(sequence)) => format!("created {created}, sequence {sequence}"),
        _ => "no creation time and no sequence number".to_owned(),
    };
    format!("key {} ({trust}): {revision}", signature.key)
}

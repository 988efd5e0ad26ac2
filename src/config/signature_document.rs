//! `signatures` of a bundle manifest.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::manifest_document::not_empty;
use super::reader::{Fields, accept};
use kubexm_types::signature_policy::{Identity, Rule, SignaturePolicy, SignedBy};

/// Maximum length of an identity in bytes.
const LONGEST: usize = 255;

/// Reads the signature policies that the `spec` of a manifest contains.
pub(super) fn read(spec: &Fields<'_>) -> Vec<SignaturePolicy> {
    let mut seen = BTreeSet::new();
    spec.sections("signatures", |fields| {
        let policy = policy(fields)?;
        if !seen.insert(policy.prefix.clone()) {
            let hint = "list all keys of a prefix in one policy";
            fields.problem_here("another policy has the same prefix", Some(hint));
        }
        Some(policy)
    })
}

fn policy(fields: &Fields<'_>) -> Option<SignaturePolicy> {
    let prefix = fields
        .required("prefix")
        .and_then(|_| fields.value("prefix"));
    let by = signed_by(fields);
    let mode = fields.choice("mode", accept(&["require", "ifPresent", "ignore"]));
    let rule = match (mode, by) {
        (Some("ignore"), None) => Rule::Ignore,
        (Some("ifPresent"), Some(by)) => Rule::IfPresent(by),
        (None | Some("require"), Some(by)) => Rule::Require(by),
        _ => {
            let message = "expected exactly one kind of signer, or none with `mode: ignore`";
            let hint = "give key, or identity with issuer; give neither with `mode: ignore`";
            fields.problem_here(message, Some(hint));
            return None;
        }
    };
    Some(SignaturePolicy {
        prefix: prefix?,
        rule,
    })
}

/// Reads the keys or the identity; `None` if there is neither or both.
fn signed_by(fields: &Fields<'_>) -> Option<SignedBy> {
    let keys: Vec<PathBuf> = fields.values("key");
    not_empty(fields, "key", "name a file with a public key in PEM");
    let (identity, issuer) = (short(fields, "identity"), short(fields, "issuer"));
    let trusted_root = fields.text("trustedRoot").map(PathBuf::from);
    match (keys.is_empty(), identity, issuer, trusted_root) {
        (false, None, None, None) => Some(SignedBy::Keys(keys)),
        (true, Some(identity), Some(issuer), trusted_root) => Some(SignedBy::Identities {
            identities: vec![Identity::new(identity, issuer)],
            trusted_root,
        }),
        _ => None,
    }
}

/// Reads a text that is written into the lock and to terminals.
fn short(fields: &Fields<'_>, name: &'static str) -> Option<String> {
    let text = fields.text(name)?;
    if text.is_empty() || text.len() > LONGEST || text.contains(char::is_control) {
        fields.problem(name, "expected one line of at most 255 bytes", None);
        return None;
    }
    Some(text)
}

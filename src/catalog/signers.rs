//! Publishers whose signers are known.

use std::collections::BTreeMap;

use serde::Deserialize;

use kubexm_types::signature_policy::{
    Identity, NamePrefix, Rule, SignaturePolicy, SignedBy, SigningPeriod,
};
use kubexm_types::{UtcTime, Version};

/// A signer in the public instance of Sigstore.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownSigner {
    identity: String,
    issuer: String,
    /// When it signed; without limits for a signer of today.
    from: Option<UtcTime>,
    until: Option<UtcTime>,
    signs: Vec<SignedNames>,
}

/// Images and files that a signer signs.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SignedNames {
    prefix: NamePrefix,
    /// The first version that is always signed; `None` if it is not known which ones are.
    signed_since: Option<Version>,
}

impl KnownSigner {
    fn identity(&self) -> Identity {
        Identity {
            period: SigningPeriod {
                from: self.from.clone(),
                until: self.until.clone(),
            },
            ..Identity::new(&self.identity, &self.issuer)
        }
    }

    /// Whether it signs all names below a prefix.
    fn signs_below(&self, prefix: &NamePrefix) -> bool {
        let mut names = self.signs.iter();
        names.any(|names| names.prefix.covers(prefix.as_str()))
    }
}

/// Returns one policy for each prefix of signed names, with the signers of the prefix and of the prefixes above it.
pub(crate) fn policies(signers: &[KnownSigner]) -> Vec<SignaturePolicy> {
    let mut since: BTreeMap<&NamePrefix, Option<&Version>> = BTreeMap::new();
    for names in signers.iter().flat_map(|signer| &signer.signs) {
        let first = since.entry(&names.prefix).or_default();
        *first = first.or(names.signed_since.as_ref());
    }
    let policy = |(prefix, since): (&NamePrefix, Option<&Version>)| {
        let signers = signers.iter();
        let signers = signers.filter(|signer| signer.signs_below(prefix));
        let by = SignedBy::Identities {
            identities: signers.map(KnownSigner::identity).collect(),
            trusted_root: None,
        };
        SignaturePolicy {
            prefix: prefix.clone(),
            rule: match since {
                Some(version) => Rule::RequireSince(by, version.clone()),
                None => Rule::IfPresent(by),
            },
        }
    };
    since.into_iter().map(policy).collect()
}

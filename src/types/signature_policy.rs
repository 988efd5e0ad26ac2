//! Which images and files must be signed, and by whom.

use std::fmt;
use std::path::PathBuf;

use super::{InvalidValue, string_value};

/// No prefix is longer.
const LONGEST: usize = 255;

/// What is asked of the images and files below a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignaturePolicy {
    /// Which.
    pub prefix: NamePrefix,
    /// What is asked of them.
    pub rule: Rule,
}

/// What is asked of a signature. One that is there and does not hold is refused wherever a
/// signer is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// It must be there.
    Require(SignedBy),
    /// It may be missing: for publishers who do not sign everything.
    IfPresent(SignedBy),
    /// Nothing is asked for, whatever a rule for a shorter prefix says.
    Ignore,
}

impl Rule {
    /// Whose signature is wanted.
    pub fn signed_by(&self) -> Option<&SignedBy> {
        match self {
            Self::Require(by) | Self::IfPresent(by) => Some(by),
            Self::Ignore => None,
        }
    }

    /// The same, to be changed.
    pub fn signed_by_mut(&mut self) -> Option<&mut SignedBy> {
        match self {
            Self::Require(by) | Self::IfPresent(by) => Some(by),
            Self::Ignore => None,
        }
    }
}

/// Whose signature is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignedBy {
    /// Whoever has one of these keys: files with public keys in PEM.
    Keys(Vec<PathBuf>),
    /// Whoever an issuer of identities said it was, by a certificate of Sigstore's authority.
    Identity {
        /// Who and whose word.
        identity: Identity,
        /// The file with a Sigstore's roots; those of the public instance where there is none.
        trusted_root: Option<PathBuf>,
    },
}

/// Who signed, as an OpenID Connect issuer calls them
/// (<https://docs.sigstore.dev/certificate_authority/oidc-in-fulcio/>).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// An address for mail, or the URI of a workflow.
    pub identity: String,
    /// The issuer's address.
    pub issuer: String,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.identity, self.issuer)
    }
}

/// The beginning of images' names, or of files' addresses without `https://`: a host, with or without
/// the first parts of what follows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamePrefix(String);

impl NamePrefix {
    /// Reads `host` or `host/path`; a `/` at the end means nothing.
    ///
    /// # Errors
    /// It begins with no host, or names a tag.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let prefix = text.trim_end_matches('/');
        let mut parts = prefix.split('/');
        let host = parts.next().unwrap_or_default();
        let is_host = host.contains(['.', ':']) || host == "localhost";
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._-~+".contains(c);
        let mut rest = parts.clone();
        let is_path = rest.all(|part| !part.is_empty() && part.chars().all(is_name));
        let is_short = text.len() <= LONGEST;
        if !is_host || !host.chars().all(|c| is_name(c) || c == ':') || !is_path || !is_short {
            return Err(InvalidValue::new(
                "prefix",
                text,
                "wants a host with or without a path, as in registry.k8s.io or docker.io/library",
            ));
        }
        Ok(Self(prefix.to_owned()))
    }

    /// Whether a name or address is below it. Whole parts are compared.
    pub fn covers(&self, name: &str) -> bool {
        let rest = name.strip_prefix(&self.0);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Of two that cover a name, the longer one says more of it.
    pub fn length(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for NamePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

string_value!(NamePrefix);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_cover_whole_parts_of_names() {
        for (prefix, covers) in [
            ("registry.example", true),
            ("registry.example/", true),
            ("registry.example/app", true),
            ("registry.example/app/web", true),
            ("registry.example/ap", false),
            ("registry.example/app/web/more", false),
            ("registry.example:443", false),
        ] {
            let parsed = NamePrefix::parse(prefix).unwrap();
            assert_eq!(
                parsed.covers("registry.example/app/web"),
                covers,
                "{prefix}"
            );
        }
        for wrong in [
            "",
            "/",
            "nginx",
            "library/nginx",
            "r.example/a:1",
            "r.example//a",
            "https://r.example",
        ] {
            assert!(NamePrefix::parse(wrong).is_err(), "{wrong}");
        }
    }
}

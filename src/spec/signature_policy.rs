//! Which images must be signed, and by whom.

use std::fmt;
use std::path::PathBuf;

use super::{ImageRef, InvalidValue, string_value};

/// What is asked of the images below a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignaturePolicy {
    /// The images.
    pub prefix: ImagePrefix,
    /// What is asked of them.
    pub rule: Rule,
}

/// What is asked of an image's signature. One that is there and does not hold is refused wherever a
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

/// The beginning of images' names: a registry, with or without the beginning of a repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImagePrefix(String);

impl ImagePrefix {
    /// Reads `registry` or `registry/path`; a `/` at the end means nothing.
    ///
    /// # Errors
    /// It begins with no registry, or names a tag.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let prefix = text.trim_end_matches('/');
        let host = prefix.split('/').next().unwrap_or_default();
        let is_host = host.contains(['.', ':']) || host == "localhost";
        // With something behind it, it is an image's name.
        let named = ImageRef::parse(&format!("{prefix}/name:tag"));
        if !is_host || named.is_err() {
            return Err(InvalidValue::new(
                "prefix",
                text,
                "wants a registry with or without a path, as in registry.k8s.io or docker.io/library",
            ));
        }
        Ok(Self(prefix.to_owned()))
    }

    /// Whether an image is below it. Names are compared by whole parts.
    pub fn covers(&self, image: &ImageRef) -> bool {
        let name = format!("{}/{}", image.registry(), image.repository());
        let rest = name.strip_prefix(&self.0);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Of two that cover an image, the longer one says more of it.
    pub fn length(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for ImagePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

string_value!(ImagePrefix);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_cover_whole_parts_of_names() {
        let image: ImageRef = "registry.example/app/web:1".parse().unwrap();
        for (prefix, covers) in [
            ("registry.example", true),
            ("registry.example/", true),
            ("registry.example/app", true),
            ("registry.example/app/web", true),
            ("registry.example/ap", false),
            ("registry.example/app/web/more", false),
            ("registry.example:443", false),
        ] {
            let parsed = ImagePrefix::parse(prefix).unwrap();
            assert_eq!(parsed.covers(&image), covers, "{prefix}");
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
            assert!(ImagePrefix::parse(wrong).is_err(), "{wrong}");
        }
    }
}

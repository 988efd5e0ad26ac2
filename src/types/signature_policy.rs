//! Policies: which images and files must be signed, and by which keys or identities.

use std::fmt;
use std::path::PathBuf;

use super::{InvalidValue, UtcTime, Version, strip_path_prefix, text_value};

/// Maximum length of a prefix in bytes.
const LONGEST: usize = 255;

/// The requirement for the images and files below a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignaturePolicy {
    pub prefix: NamePrefix,
    pub rule: Rule,
}

/// The requirement for a signature. If the rule names a signer, a signature that is not valid is always refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// A signature is required.
    Require(SignedBy),
    /// A signature is required from this version on. The publisher did not sign all earlier versions.
    RequireSince(SignedBy, Version),
    /// The signature may be missing, for publishers that do not sign everything.
    IfPresent(SignedBy),
    /// No signature is required, even if a rule for a shorter prefix requires one.
    Ignore,
}

impl Rule {
    /// Returns the accepted signers.
    pub fn signed_by(&self) -> Option<&SignedBy> {
        match self {
            Self::Require(by) | Self::RequireSince(by, _) | Self::IfPresent(by) => Some(by),
            Self::Ignore => None,
        }
    }

    /// Returns the accepted signers for a change.
    pub fn signed_by_mut(&mut self) -> Option<&mut SignedBy> {
        match self {
            Self::Require(by) | Self::RequireSince(by, _) | Self::IfPresent(by) => Some(by),
            Self::Ignore => None,
        }
    }
}

/// The accepted signers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignedBy {
    /// Owners of one of these keys: files with public keys in PEM.
    Keys(Vec<PathBuf>),
    /// Any of these identities that Sigstore's certificate authority has certified.
    Identities {
        identities: Vec<Identity>,
        /// The file with the trusted root of a Sigstore instance; `None` for the public instance.
        trusted_root: Option<PathBuf>,
    },
}

/// A signer, as an OpenID Connect issuer names it
/// (<https://docs.sigstore.dev/certificate_authority/oidc-in-fulcio/>).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// An e-mail address, or the URI of a workflow.
    pub identity: String,
    /// The URL of the issuer.
    pub issuer: String,
    /// When it must have signed.
    pub period: SigningPeriod,
}

impl Identity {
    /// Creates an identity that is accepted at any time.
    pub fn new(identity: impl Into<String>, issuer: impl Into<String>) -> Self {
        Self {
            identity: identity.into(),
            issuer: issuer.into(),
            period: SigningPeriod::default(),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}{}", self.identity, self.issuer, self.period)
    }
}

/// The period of an identity's signatures; both ends are included. A missing end is unlimited.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SigningPeriod {
    pub from: Option<UtcTime>,
    pub until: Option<UtcTime>,
}

impl SigningPeriod {
    /// Whether a time of whole seconds is in the period.
    pub fn contains(&self, time: &UtcTime) -> bool {
        self.from.as_ref().is_none_or(|from| from <= time)
            && self.until.as_ref().is_none_or(|until| time <= until)
    }
}

impl fmt::Display for SigningPeriod {
    /// Formats the limits for a text after the identity.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(from) = &self.from {
            write!(f, " from {from}")?;
        }
        if let Some(until) = &self.until {
            write!(f, " until {until}")?;
        }
        Ok(())
    }
}

/// A prefix of image names, or of URLs of files without `https://`: a host, optionally with the first parts of the
/// path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamePrefix(String);

impl NamePrefix {
    /// Parses `host` or `host/path`. A `/` at the end is ignored.
    ///
    /// # Errors
    /// The text does not begin with a host, or contains a tag.
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
                "expected a host with or without a path, as in registry.k8s.io or docker.io/library",
            ));
        }
        Ok(Self(prefix.to_owned()))
    }

    /// Returns true if the name or URL is below the prefix. Whole parts are compared.
    pub fn covers(&self, name: &str) -> bool {
        strip_path_prefix(name, &self.0).is_some()
    }

    /// Returns the length in bytes. Of two prefixes that cover a name, the longer one is more specific.
    pub fn length(&self) -> usize {
        self.0.len()
    }
}

text_value!(NamePrefix);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_include_their_ends() {
        let time = |text: &str| UtcTime::parse(text).unwrap();
        let period = SigningPeriod {
            from: Some(time("2022-10-01T00:00:00Z")),
            until: Some(time("2022-12-31T23:59:59Z")),
        };
        for (at, expected) in [
            ("2022-09-30T23:59:59Z", false),
            ("2022-10-01T00:00:00Z", true),
            ("2022-12-31T23:59:59Z", true),
            ("2023-01-01T00:00:00Z", false),
        ] {
            assert_eq!(period.contains(&time(at)), expected, "{at}");
            assert!(SigningPeriod::default().contains(&time(at)));
        }
    }

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

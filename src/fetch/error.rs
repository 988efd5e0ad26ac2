//! Errors of this crate, and how several of them become one.

use std::fmt;

use kubexm_bundle::BundleError;
use kubexm_types::{Digest, Message, ShownUrl};

use crate::openpgp::OpenPgpError;

/// An error while resolving or fetching.
#[derive(Debug)]
pub enum FetchError {
    /// The server could not be reached or the connection broke, also after retries.
    Unreachable {
        /// What kubexm fetched.
        what: String,
        url: ShownUrl,
        /// The innermost cause.
        reason: Message,
    },
    /// The server answered with an error status.
    Refused {
        /// What kubexm fetched.
        what: String,
        url: ShownUrl,
        status: u16,
        /// What the status means and what the user can do.
        hint: String,
    },
    /// The publisher did not answer, and its mirror is not trusted for the answer.
    Publisher {
        /// What kubexm fetched.
        what: String,
        /// Host of the publisher.
        publisher: String,
        /// The public address.
        url: ShownUrl,
        cause: String,
    },
    /// The content does not have the expected digest.
    Checksum {
        /// What kubexm fetched.
        what: String,
        url: ShownUrl,
        /// The published or locked digest.
        expected: Digest,
        /// The digest of the received content.
        got: Digest,
    },
    /// The cache cannot be written or read. A cause of kubexm itself is a [`Message`].
    Cache {
        path: String,
        source: std::io::Error,
    },
    /// The disk is full.
    Full {
        /// The file that could not be written.
        path: String,
        /// Missing disk space in bytes, if the size of the file is known.
        missing: Option<u64>,
    },
    /// The received content cannot be parsed or is not acceptable.
    Content {
        /// What kubexm read.
        what: String,
        /// What is wrong with it and what the user can do.
        reason: Message,
    },
    /// No trusted key signed the received content.
    Signature {
        /// What kubexm read.
        what: String,
        source: OpenPgpError,
    },
    /// A downloaded program did not run to its end.
    Program {
        /// The program and its version.
        what: String,
        source: kubexm_sandbox::SandboxError,
    },
    /// The bundle manifest requires something that does not exist or does not fit.
    Resolve(Message),
    /// Reading or writing a bundle failed.
    Bundle(BundleError),
    /// Several errors.
    Several(Vec<FetchError>),
}

/// The hint for a server that cannot be reached.
const NETWORK_HINT: &str = "check the name server, the network and the proxy (HTTPS_PROXY names one), then run the same command again";
/// The hint for a cache that cannot be used.
const CACHE_HINT: &str = "repair this directory, or name another one with --cache";
const FULL_HINT: &str = "free some space and run the same command again, which continues the download; or name another directory with --cache";

impl From<&FetchError> for Message {
    fn from(error: &FetchError) -> Self {
        match error {
            FetchError::Unreachable { what, url, reason } => reason
                .clone()
                .within(format!("{what}: cannot reach {url}"))
                .or_hint(Some(NETWORK_HINT)),
            FetchError::Refused {
                what,
                url,
                status,
                hint,
            } => Self::new(format!("{what}: {url} answered {status}")).hint(hint),
            FetchError::Publisher {
                what,
                publisher,
                url,
                cause,
            } => Self::new(format!(
                "{what}: cannot ask the publisher {publisher} for {url}: {cause}"
            ))
            .hint(format!(
                "its mirror is not trusted for this; make {publisher} reachable (HTTPS_PROXY names a proxy), or set \
                 `checksums: mirror` in the mirrors file (--mirrors) if you trust the mirror"
            )),
            FetchError::Checksum {
                what,
                url,
                expected,
                got,
            } => Self::new(format!(
                "{what}: {url} returned content with the wrong digest; it was discarded\n  expected {expected}\n  got      {got}"
            ))
            .hint("a mirror or proxy may serve a damaged copy; try another one"),
            FetchError::Cache { path, source } => {
                let own = source.get_ref();
                let own = own.and_then(|cause| cause.downcast_ref::<Self>());
                let cause = own.cloned().unwrap_or_else(|| source.to_string().into());
                cause
                    .within(format!("the cache at {path}"))
                    .or_hint(Some(CACHE_HINT))
            }
            FetchError::Full { path, missing } => {
                let missing = missing.map_or_else(String::new, |bytes| {
                    let bytes = indicatif::HumanBytes(bytes);
                    format!(": at least {bytes} more are required")
                });
                Self::new(format!("the cache at {path}: the disk is full{missing}")).hint(FULL_HINT)
            }
            FetchError::Content { what, reason } => reason.clone().within(what),
            FetchError::Signature { what, source } => Self::from(source).within(what),
            FetchError::Program { what, source } => {
                Self::new(format!("{what}: {source}")).or_hint(source.hint())
            }
            FetchError::Resolve(message) => message.clone(),
            FetchError::Bundle(error) => Self::from(error),
            FetchError::Several(errors) => {
                let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
                Self::new(lines.join("\n"))
            }
        }
    }
}

/// Returns the error for unusable content: what it is, and why kubexm refuses it.
pub(crate) fn wrong(what: &dyn fmt::Display, reason: impl Into<Message>) -> FetchError {
    FetchError::Content {
        what: what.to_string(),
        reason: reason.into(),
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Message::from(self).fmt(f)
    }
}

impl std::error::Error for FetchError {}

impl From<BundleError> for FetchError {
    fn from(error: BundleError) -> Self {
        Self::Bundle(error)
    }
}

/// The origin of an address, and why a request to it failed.
type SiteAndCause = (String, Message);

impl FetchError {
    /// Returns the error of a bundle manifest that requires what does not exist or does not fit.
    pub fn resolve(message: impl Into<Message>) -> Self {
        Self::Resolve(message.into())
    }

    /// Whether no trusted key signed the content.
    pub(crate) fn is_of_a_signature(&self) -> bool {
        match self {
            Self::Signature { .. } => true,
            Self::Several(errors) => errors.iter().any(Self::is_of_a_signature),
            _ => false,
        }
    }

    /// Whether another server may succeed, because the server or the connection caused the error.
    pub(crate) fn is_of_a_server(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Refused { .. }
                | Self::Checksum { .. }
                | Self::Content { .. }
                | Self::Signature { .. }
        )
    }

    /// Whether the server answered that it does not have the content.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                status: 404 | 410,
                ..
            }
        )
    }

    /// Whether the server did not answer.
    pub(crate) fn is_without_answer(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Publisher { .. })
    }

    /// Combines errors with the same cause at the same site, in the order of their first occurrence: the site
    /// cannot be reached, or it refuses with the same status.
    #[must_use]
    pub fn grouped_by_site(errors: Vec<Self>) -> Vec<Self> {
        let mut groups: Vec<(Option<SiteAndCause>, Vec<Self>)> = Vec::new();
        for error in errors {
            let site = error.site_and_cause();
            match groups
                .iter_mut()
                .find(|(other, _)| site.is_some() && *other == site)
            {
                Some((_, group)) => group.push(error),
                None => groups.push((site, vec![error])),
            }
        }
        let merge = |(site, group): (Option<SiteAndCause>, Vec<Self>)| {
            let count = group.len();
            let mut group = group.into_iter();
            let mut first = group.next()?;
            if let (Some((site, _)), 2..) = (site, count)
                && let Self::Unreachable { what, url, .. } | Self::Refused { what, url, .. } =
                    &mut first
            {
                *what = format!("{what} and {} more", count - 1);
                *url = ShownUrl::of_text(&site);
            }
            Some(first)
        };
        groups.into_iter().filter_map(merge).collect()
    }

    /// Returns the origin of the address and the cause of an error of a site.
    fn site_and_cause(&self) -> Option<SiteAndCause> {
        let (url, cause) = match self {
            Self::Unreachable { url, reason, .. } => (url, reason.clone()),
            Self::Refused { url, status, .. } => (url, status.to_string().into()),
            _ => return None,
        };
        let origin = url::Url::parse(url.as_str()).ok()?.origin();
        Some((origin.ascii_serialization(), cause))
    }

    /// Combines errors of the same publisher with the same cause.
    fn grouped_by_publisher(errors: Vec<Self>) -> Vec<Self> {
        let mut groups: Vec<(Self, usize)> = Vec::new();
        for error in errors {
            let same = |(other, _): &&mut (Self, usize)| match (other, &error) {
                (
                    Self::Publisher {
                        publisher, cause, ..
                    },
                    Self::Publisher {
                        publisher: other,
                        cause: reason,
                        ..
                    },
                ) => publisher == other && cause == reason,
                _ => false,
            };
            match groups.iter_mut().find(same) {
                Some((_, more)) => *more += 1,
                None => groups.push((error, 0)),
            }
        }
        let merge = |(mut error, more)| {
            if let (Self::Publisher { what, .. }, 1..) = (&mut error, more) {
                *what = format!("{what} and {more} more");
            }
            error
        };
        groups.into_iter().map(merge).collect()
    }

    /// Combines errors into one; returns `Ok` if there are none. A site that cannot be reached is one error.
    pub fn all(errors: Vec<Self>) -> Result<(), Self> {
        let (unreachable, others) = errors
            .into_iter()
            .partition(|error| matches!(error, Self::Unreachable { .. }));
        let mut errors = Self::grouped_by_publisher(others);
        errors.extend(Self::grouped_by_site(unreachable));
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several(errors)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_one_site_are_one_error() {
        let unreachable = |what: &str, url: &str| FetchError::Unreachable {
            what: what.into(),
            url: ShownUrl::of_text(url),
            reason: "dns error".into(),
        };
        let refused = |what: &str, status| FetchError::Refused {
            what: what.into(),
            url: ShownUrl::of_text("https://github.example/a"),
            status,
            hint: "wait".into(),
        };
        let errors = vec![
            unreachable("releases of a", "https://github.example/a"),
            unreachable("releases of b", "https://dl.example/b"),
            unreachable("releases of c", "https://github.example/c"),
            refused("releases of d", 403),
            unreachable("releases of e", "https://github.example/e"),
            refused("releases of f", 404),
            FetchError::resolve("nothing"),
            FetchError::resolve("nothing"),
        ];
        let grouped = FetchError::grouped_by_site(errors);
        let lines: Vec<String> = grouped.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(lines.join("\n"), @"
        releases of a and 2 more: cannot reach https://github.example/: dns error
        hint: check the name server, the network and the proxy (HTTPS_PROXY names one), then run the same command again
        releases of b: cannot reach https://dl.example/b: dns error
        hint: check the name server, the network and the proxy (HTTPS_PROXY names one), then run the same command again
        releases of d: https://github.example/a answered 403
        hint: wait
        releases of f: https://github.example/a answered 404
        hint: wait
        nothing
        nothing
        ");
    }
}

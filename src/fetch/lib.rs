//! Resolves a bundle manifest on the connected machine: fetches files, images and OS packages from public
//! addresses into the cache, and writes the lock.

mod apt;
pub mod cache;
mod checksum;
mod client;
mod course;
mod credentials;
pub mod dnf;
mod download;
pub mod file_signatures;
mod gate;
pub mod http;
pub mod image_signatures;
pub mod kubeadm;
mod nearby;
pub mod oci;
pub mod openpgp;
pub mod own;
pub mod packages;
pub mod partial;
mod range_answer;
pub mod ranges;
mod recipes;
pub mod record;
pub mod releases;
pub mod resolve;
mod retry;
mod shares;
pub mod signatures;
pub mod store;

pub use cache::Cache;
pub use http::Http;
use nearby::Nearby;
use openpgp::OpenPgpError;

use kubexm_bundle::BundleError;
use kubexm_types::Digest;

/// An error while resolving or fetching.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The server could not be reached or the connection broke, also after retries.
    #[error("{what}: cannot reach {url}: {reason}")]
    Unreachable {
        /// What kubexm fetched.
        what: String,
        url: String,
        /// The innermost cause.
        reason: String,
    },
    /// The server answered with an error status.
    #[error("{what}: {url} answered {status}\nhint: {hint}")]
    Refused {
        /// What kubexm fetched.
        what: String,
        url: String,
        status: u16,
        /// What the status means and what the user can do.
        hint: String,
    },
    /// The content does not have the expected digest.
    #[error(
        "{what}: {url} returned content with the wrong digest; it was discarded\n  expected {expected}\n  got      {got}\nhint: a mirror or proxy may serve a damaged copy; try another one"
    )]
    Checksum {
        /// What kubexm fetched.
        what: String,
        url: String,
        /// The published or locked digest.
        expected: Digest,
        /// The digest of the received content.
        got: Digest,
    },
    /// The cache cannot be written or read.
    #[error("the cache at {path}: {source}")]
    Cache {
        path: String,
        source: std::io::Error,
    },
    /// The disk is full.
    #[error(
        "the cache at {path}: the disk is full{}\nhint: free some space and run the same command again, which continues the download; or name another directory with --cache",
        missing.map_or_else(String::new, |bytes| format!(": at least {} more are required", indicatif::HumanBytes(bytes)))
    )]
    Full {
        /// The file that could not be written.
        path: String,
        /// Missing disk space in bytes, if the size of the file is known.
        missing: Option<u64>,
    },
    /// The received content cannot be parsed or is not acceptable.
    #[error("{what}: {reason}")]
    Content {
        /// What kubexm read.
        what: String,
        /// What is wrong with it and what the user can do.
        reason: String,
    },
    /// No trusted key signed the received content.
    #[error("{what}: {source}")]
    Signature {
        /// What kubexm read.
        what: String,
        source: OpenPgpError,
    },
    /// The bundle manifest requires something that does not exist or does not fit.
    #[error("{0}")]
    Resolve(String),
    /// Reading or writing a bundle failed.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// Several errors.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<FetchError>),
}

impl FetchError {
    /// Whether another server may succeed, because the server or the connection caused the error.
    fn is_of_a_server(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Refused { .. }
                | Self::Checksum { .. }
                | Self::Content { .. }
                | Self::Signature { .. }
        )
    }

    /// Combines errors into one; returns `Ok` if there are none.
    pub fn all(mut errors: Vec<Self>) -> Result<(), Self> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several(errors)),
        }
    }
}

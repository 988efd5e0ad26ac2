//! The connected side: files, images and OS packages from their public places into the cache, and
//! a lock that says what they are.

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
mod keyring;
pub mod kubeadm;
mod nearby;
pub mod oci;
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

use kubexm_bundle::BundleError;
use kubexm_types::Digest;

/// Why something could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The server could not be reached or the line dropped, again and again.
    #[error("{what}: cannot reach {url}: {reason}")]
    Unreachable {
        /// What was wanted.
        what: String,
        /// The address that was tried.
        url: String,
        /// The system's words.
        reason: String,
    },
    /// The server said no.
    #[error("{what}: {url} answered {status}: {hint}")]
    Refused {
        /// What was wanted.
        what: String,
        /// The address that was tried.
        url: String,
        /// HTTP status.
        status: u16,
        /// What it means and what to do.
        hint: String,
    },
    /// The bytes are not what they should be.
    #[error(
        "{what}: {url} gave other bytes than published\n  expected {expected}\n  got      {got}\nNothing of it was kept. A mirror or proxy may be serving a damaged copy."
    )]
    Checksum {
        /// What was wanted.
        what: String,
        /// The address that was tried.
        url: String,
        /// The published or locked digest.
        expected: Digest,
        /// The digest of what came.
        got: Digest,
    },
    /// The cache cannot be written or read.
    #[error("the cache at {path}: {source}")]
    Cache {
        /// File or folder.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The disk is full.
    #[error(
        "the cache at {path}: the disk is full{}\nFree some and run the same command again: what was downloaded is kept. Or name another folder with --cache.",
        missing.map_or_else(String::new, |bytes| format!(": at least {} more are needed", indicatif::HumanBytes(bytes)))
    )]
    Full {
        /// The file that could not be written.
        path: String,
        /// Bytes that this file lacks beyond what is free, where its size is known.
        missing: Option<u64>,
    },
    /// What came cannot be understood.
    #[error("{what}: {reason}")]
    Content {
        /// What was read.
        what: String,
        /// What is wrong with it and what to do.
        reason: String,
    },
    /// The manifest wants something that does not exist or does not fit.
    #[error("{0}")]
    Resolve(String),
    /// A bundle that is sent or received.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// Several things went wrong at once.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<FetchError>),
}

impl FetchError {
    /// Whether a server or the way to it is at fault: another one may do better.
    fn is_of_a_server(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Refused { .. }
                | Self::Checksum { .. }
                | Self::Content { .. }
        )
    }

    /// One error out of many; `Ok` where there is none.
    pub fn all(mut errors: Vec<Self>) -> Result<(), Self> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several(errors)),
        }
    }
}

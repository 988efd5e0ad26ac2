//! Resolves a bundle manifest on the connected machine: fetches files, images and OS packages from public
//! addresses into the cache, and writes the lock.

mod answers;
mod apt;
pub mod artifacts;
pub mod cache;
mod checksum;
mod client;
mod conformance;
mod connection;
mod credentials;
pub mod dnf;
mod download;
mod error;
pub mod file_signatures;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod gzip_analysis_cache;
mod host_limiter;
pub mod http;
pub mod image_signatures;
pub mod kubeadm;
mod linking;
mod local_source;
pub mod oci;
pub mod openpgp;
mod pace;
pub mod packages;
pub mod partial;
mod program;
mod range_answer;
mod range_scheduler;
mod ranged_download;
pub mod ranges;
pub mod record;
pub mod releases;
pub mod resolve;
mod response;
mod retry;
mod session;
pub mod signatures;
mod token_client;
pub mod xml;

pub use cache::Cache;
pub use error::FetchError;
pub use http::Http;

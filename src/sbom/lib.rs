//! Software bill of materials (SBOM) of a bundle: files, images, OS packages, Go modules and Rust crates.
//! Looks them up in a database of vulnerabilities. Reads local files only; knows no network.
//!
//! A [`scan`] reads the bundle once and collects the finds in each blob. The [`inventory`] merges the layers
//! of each image and builds a [`graph`] of components. [`spdx`] and [`cyclonedx`] write it as a document,
//! and [`vulnerability`] compares it with a database.

pub mod cyclonedx;
mod document;
mod ecosystem;
mod elf;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod go;
pub mod graph;
mod inventory;
mod layer_scanner;
mod licence;
mod os;
mod purl;
mod rpm;
mod rust;
mod scan;
pub mod spdx;
pub mod table;
mod text;
pub mod vulnerability;
mod whiteouts;

pub use document::Stamp;
pub use inventory::Inventory;

use kubexm_bundle::BundleError;
use kubexm_types::Message;

/// Why the content of a bundle cannot be listed.
#[derive(Debug, thiserror::Error)]
#[error("{}", Message::from(self))]
pub enum SbomError {
    /// The bundle cannot be read.
    Bundle(#[from] BundleError),
    /// The bundle exceeds a limit.
    TooMuch {
        /// The bundle.
        path: String,
        /// The limit.
        reason: String,
    },
}

impl From<&SbomError> for Message {
    fn from(error: &SbomError) -> Self {
        match error {
            SbomError::Bundle(error) => Self::from(error),
            SbomError::TooMuch { path, reason } => {
                Self::new(format!("{path}: {reason}")).hint("do not use this bundle")
            }
        }
    }
}

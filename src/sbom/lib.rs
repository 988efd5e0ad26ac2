//! What a bundle is made of, down to the packages of its images and the modules of its programs, and
//! which of it is known to be vulnerable. Reads the bundle and files that users give; knows no network.
//!
//! A [`survey`] goes over the bundle once and keeps what it finds in each blob. The [`inventory`] puts
//! an image together from its layers and makes a [`graph`] of components, which [`spdx`] and
//! [`cyclonedx`] write down and [`vulnerability`] holds against a database.

mod content;
mod cover;
pub mod cyclonedx;
mod document;
mod ecosystem;
mod elf;
mod go;
pub mod graph;
mod inventory;
mod licence;
mod os;
mod purl;
mod rpm;
mod rust;
pub mod spdx;
mod survey;
pub mod table;
mod text;
pub mod vulnerability;

pub use document::Stamp;
pub use inventory::Inventory;

use kubexm_bundle::BundleError;

/// Why it cannot be said what a bundle is made of.
#[derive(Debug, thiserror::Error)]
pub enum SbomError {
    /// The bundle cannot be read.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// More than any bundle holds.
    #[error("{path}: {reason}; do not use it")]
    TooMuch {
        /// The bundle.
        path: String,
        /// What there is too much of.
        reason: String,
    },
}

//! The commands that build, read and change bundles.

pub mod add;
pub mod base;
pub mod build;
pub mod cache;
pub mod completeness;
pub mod config;
pub mod diff;
pub mod export;
pub mod extract;
pub mod find_images;
pub mod inspect;
pub mod inventory;
pub mod lock_file;
pub mod merge;
pub mod outdated;
pub mod pull;
pub mod push;
pub mod remove;
pub mod repack;
pub mod sbom;
pub mod sign;
pub mod sources;
pub mod split_join;
pub mod trust;
pub mod verify;
pub mod volume_size;
pub mod vulnerabilities;
pub mod written;

pub use kubexm_bundle::{CreationTime, Level, Revision, Sequence};
pub use volume_size::VolumeSize;
pub use written::{Volumes, WrittenBundle};

//! The bundle format: write, read, verify, sign, split and compare bundles. Knows no network.
//!
//! `FORMAT.md` specifies the file: a tar compressed with zstd that starts with a header (OCI image layout,
//! index, signature, lock, placement document) and continues with groups of blobs. Each group starts a zstd
//! frame and a seek table ends the file, so that a reader decompresses one blob without the rest. A bundle
//! that keeps its gzip layers is an OCI image layout that other tools unpack.
//!
//! A bundle can be split into volumes ([`format::volumes`]), contain only the blobs that a base bundle does
//! not have ([`BundleSet`]), and be signed ([`signature`]). The signature covers the content, whatever the
//! packing.

pub mod archive;
mod blobs;
mod channel_reader;
mod codec;
mod error;
pub mod export;
pub mod format;
pub mod inventory;
mod level;
pub mod lock;
pub mod oci_artifact;
pub mod read;
pub mod signature;
pub mod statement;
mod threads;
pub mod write;

pub use blobs::{BlobPart, Blobs, PartHandler, StoredContent};
pub use error::BundleError;
pub use format::placement::{DecompressedGzip, Placement};
pub use inventory::Inventory;
pub use level::Level;
pub use lock::Lock;
pub use lock::blob_index::{BlobIndex, BlobInfo};
pub use read::bundle_set::BundleSet;
pub use read::contents::ContentVisitor;
pub use read::{Access, Bundle};
pub use signature::{BundleSignature, Signer};
pub use statement::{CreationTime, Revision, Sequence};
pub use threads::cores;
pub use write::grouping::arrange;
pub use write::gzip_analysis::{EncoderCache, analyze_gzip};
pub use write::{PackOptions, Signed, Written, check_folder, write, write_until};

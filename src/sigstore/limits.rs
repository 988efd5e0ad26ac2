//! Maximum sizes of the documents that carry signatures.

/// Maximum size of a signature manifest, in bytes; registries accept no larger manifest.
pub const LARGEST_MANIFEST: usize = 4 * 1024 * 1024;
/// Maximum size of a payload, a configuration or a bundle, in bytes.
pub const LARGEST_PART: u64 = 1024 * 1024;

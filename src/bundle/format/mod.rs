//! The parts of a bundle file, as `FORMAT.md` specifies them.

pub mod chunks;
pub mod header;
pub mod oci_layout;
pub mod placement;
pub mod recompression;
pub mod seek_table;
pub(crate) mod tar_entry;
pub mod volumes;

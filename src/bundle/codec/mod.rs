//! Reversible encodings of stored blobs: decompressed gzip and the ELF filter.

pub mod elf;
pub mod recompress;

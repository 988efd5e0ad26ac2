//! Numbers in databases, and their limit.

use crate::elf;

/// Maximum number of packages in a database.
pub(super) const MOST_PACKAGES: usize = 100_000;

/// Parses a big-endian number.
pub(super) fn big(bytes: &[u8], at: usize, size: usize) -> Option<usize> {
    let number = elf::number(bytes, at, size, true)?;
    usize::try_from(number).ok()
}

/// Parses a little-endian number of four bytes.
pub(super) fn little(bytes: &[u8], at: usize) -> Option<usize> {
    let number = elf::number(bytes, at, 4, false)?;
    usize::try_from(number).ok()
}

//! Reads rpm databases. Every backend stores the same package headers in another container.

mod berkeley;
mod header;
mod ndb;
mod sqlite;

use super::os::Package;

/// Maximum number of packages in a database.
const MOST_PACKAGES: usize = 100_000;

/// Parses a database file: `rpmdb.sqlite`, `Packages.db` (ndb) or `Packages` (Berkeley DB).
///
/// # Errors
/// The file has another format or is damaged. The error is the rest of a sentence.
pub fn packages(database: &[u8]) -> Result<Vec<Package>, String> {
    let headers = if database.starts_with(sqlite::MAGIC) {
        sqlite::headers(database)?
    } else if database.starts_with(ndb::MAGIC) {
        ndb::headers(database)?
    } else if berkeley::is(database) {
        berkeley::headers(database)?
    } else {
        return Err("is not an rpm database that kubexm knows".to_owned());
    };
    let mut packages = Vec::new();
    for bytes in &headers {
        let package = header::package(bytes).ok_or("has an invalid package header")?;
        // rpm stores trusted keys as packages.
        if package.name != "gpg-pubkey" {
            packages.push(package);
        }
    }
    Ok(packages)
}

/// Parses a big-endian number.
fn big(bytes: &[u8], at: usize, size: usize) -> Option<usize> {
    let number = super::elf::number(bytes, at, size, true)?;
    usize::try_from(number).ok()
}

/// Parses a little-endian number of four bytes.
fn little(bytes: &[u8], at: usize) -> Option<usize> {
    let number = super::elf::number(bytes, at, 4, false)?;
    usize::try_from(number).ok()
}

//! rpm's databases: every backend keeps the same headers, in a container of its own.

mod berkeley;
mod header;
mod ndb;
mod sqlite;

use super::os::Package;

/// Packages that one system may have.
const MOST_PACKAGES: usize = 100_000;

/// Reads a database as a file: `rpmdb.sqlite`, `Packages.db` (ndb) or `Packages` (Berkeley DB).
///
/// # Errors
/// It is none of them, or damaged: what is wrong, as the rest of a sentence.
pub fn packages(database: &[u8]) -> Result<Vec<Package>, String> {
    let headers = if database.starts_with(sqlite::MAGIC) {
        sqlite::headers(database)?
    } else if database.starts_with(ndb::MAGIC) {
        ndb::headers(database)?
    } else if berkeley::is(database) {
        berkeley::headers(database)?
    } else {
        return Err("is no rpm database that is known here".to_owned());
    };
    let mut packages = Vec::new();
    for bytes in &headers {
        let package = header::package(bytes).ok_or("has a package header that cannot be")?;
        // Keys that rpm trusts are kept as packages, too.
        if package.name != "gpg-pubkey" {
            packages.push(package);
        }
    }
    Ok(packages)
}

/// A number with its first byte first.
fn big(bytes: &[u8], at: usize, size: usize) -> Option<usize> {
    let number = super::elf::number(bytes, at, size, true)?;
    usize::try_from(number).ok()
}

/// A number of four bytes with its last byte first.
fn little(bytes: &[u8], at: usize) -> Option<usize> {
    let number = super::elf::number(bytes, at, 4, false)?;
    usize::try_from(number).ok()
}

//! Reads rpm databases. Every backend stores the same package headers in another container.

mod berkeley;
mod header;
mod ndb;
mod numbers;
mod sqlite;

use super::os::Package;

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

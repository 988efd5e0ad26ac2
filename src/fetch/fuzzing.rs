//! Entry points of `tests/fuzz`, compiled only for it (feature `fuzzing`): parsers that no other crate calls.

use std::io::Write;

use kubexm_bundle::lock::{LockedPackage, PlatformManifest};

pub use crate::dnf::fuzzing::DnfFile;
use crate::openpgp::OpenPgpKeyring;
use crate::{FetchError, apt, dnf, oci};

/// What a parser of metadata returns; the error is a text for users.
pub type Parsed<T> = Result<T, String>;

/// Reads a `Release`: its suite, its validity, and its entry for a list.
pub fn apt_release(text: &str) -> Vec<Parsed<()>> {
    apt::fuzzing::release(text)
}

/// Resolves all packages of a `Packages` list whose archive is `https://deb.example/debian`.
pub fn apt_packages(list: &str) -> Parsed<Vec<LockedPackage>> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    let packed = gzip.write_all(list.as_bytes()).and_then(|()| gzip.finish());
    apt::fuzzing::packages(&packed.map_err(|error| error.to_string())?)
}

/// Reads a file of a dnf repository at `https://rpm.example/el9`, and resolves its packages.
pub fn dnf(file: &DnfFile, bytes: &[u8], keyring: &OpenPgpKeyring) -> Parsed<Vec<LockedPackage>> {
    dnf::fuzzing::read(file, bytes, keyring)
}

/// Reads an index or a manifest of an image.
pub fn image(bytes: &[u8]) -> Result<Option<PlatformManifest>, FetchError> {
    oci::fuzzing::manifest(bytes)
}

//! Entry points of `tests/fuzz`, compiled only for it (feature `fuzzing`): parsers that no other crate calls.

use std::io::Write;

use kubexm_bundle::lock::{LockedPackage, PlatformManifest};
use kubexm_types::{Arch, ImageRef};

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

/// A file of a dnf repository.
pub enum DnfFile {
    Repomd,
    /// Compressed as its extension says.
    Primary(&'static str),
    Filelists,
    Modules,
    Rpm,
}

/// Reads a file of a dnf repository at `https://rpm.example/el9`, and resolves its packages.
pub fn dnf(file: &DnfFile, bytes: &[u8], keyring: &OpenPgpKeyring) -> Parsed<Vec<LockedPackage>> {
    dnf::fuzzing::read(file, bytes, keyring)
}

/// Reads an index or a manifest of an image.
pub fn image(bytes: &[u8]) -> Result<Option<PlatformManifest>, FetchError> {
    oci::fuzzing::manifest(bytes)
}

/// The image that [`image`] names in errors.
pub(crate) fn name() -> Result<ImageRef, FetchError> {
    let name = "registry.example/team/app:1".parse();
    name.map_err(|error: kubexm_types::InvalidValue| FetchError::Resolve(error.to_string()))
}

/// The architecture that [`image`] selects.
pub(crate) const ARCH: Arch = Arch::Amd64;

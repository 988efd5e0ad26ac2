//! Entry points of `tests/fuzz`, compiled only for it (feature `fuzzing`): package databases of images.

use crate::os::{self, Package, Release};
use crate::purl;
use crate::rpm;

/// Reads the database of rpm, in any of its three forms.
///
/// # Errors
/// It has another form, or is damaged.
pub fn rpm(database: &[u8]) -> Result<Vec<String>, String> {
    rpm::packages(database).map(|packages| addresses(&packages))
}

/// Reads the databases of dpkg and of apk.
pub fn texts(text: &str) -> Vec<String> {
    let packages = [os::dpkg(text), os::apk(text)].concat();
    addresses(&packages)
}

/// Returns the package URLs of those packages that have one.
fn addresses(packages: &[Package]) -> Vec<String> {
    let release = Release::parse("ID=rocky\nVERSION_ID=9.4\n");
    let addresses = packages.iter().filter_map(|package| {
        let release = release.as_ref()?;
        purl::os_package(package, release).ok()
    });
    addresses.collect()
}

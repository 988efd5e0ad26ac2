//! URLs without logins. Earlier versions wrote the login of a package repository into the lock, which is in
//! bundles, in repositories of code and in SBOMs.

use url::Url;

use crate::lock::{ChecksumSource, Lock};
use kubexm_types::without_login;

impl Lock {
    /// Removes user and password from every URL.
    pub(super) fn remove_logins(&mut self) {
        for file in &mut self.files {
            remove(&mut file.url);
            of_checksum(&mut file.checksum);
        }
        let checksums = self.images.iter_mut();
        checksums
            .filter_map(|image| image.checksum.as_mut())
            .for_each(of_checksum);
        for package in self.packages.iter_mut().flat_map(|set| &mut set.packages) {
            remove(&mut package.url);
        }
        for artifact in &mut self.artifacts {
            artifact.url.iter_mut().for_each(remove);
            of_checksum(&mut artifact.checksum);
        }
    }
}

fn of_checksum(checksum: &mut ChecksumSource) {
    if let ChecksumSource::Published(url) | ChecksumSource::Mirror(url) = checksum {
        remove(url);
    }
}

fn remove(url: &mut Url) {
    if !url.username().is_empty() || url.password().is_some() {
        *url = without_login(url);
    }
}

//! Validates a lock, which is untrusted input. Its texts appear on terminals, in file names and in archives
//! that root unpacks on hosts.

use std::collections::{BTreeMap, BTreeSet};

use crate::lock::text::{invalid, is_printable, name};
use crate::lock::{ChecksumSource, Descriptor, Lock, LockedPackages};
use kubexm_sigstore::Signer;
use kubexm_sigstore::limits::{LARGEST_MANIFEST, LARGEST_PART};
use kubexm_types::{Digest, Message};

/// Checks every text and size that the types do not limit (`FORMAT.md`, section 9).
///
/// # Errors
/// The first problem, as the rest of a sentence about the bundle.
pub fn check(lock: &Lock) -> Result<(), Message> {
    if lock.lock_version < lock.required_version() {
        return Err(Message::new(format!(
            "its lock has version {} and members of version {}",
            lock.lock_version,
            lock.required_version()
        ))
        .hint("do not use this bundle"));
    }
    name("name", &lock.name)?;
    for file in &lock.files {
        only_signed(&file.checksum, file.signature.is_some(), &file.component)?;
        name("component", &file.component)?;
        name("file name", &file.file_name)?;
        if let Some(signature) = &file.signature {
            signer(&signature.by)?;
            small(signature.everything().map(|(_, blob)| (blob, LARGEST_PART)))?;
        }
        for member in &file.members {
            path(&member.path)?;
        }
    }
    for image in &lock.images {
        if !image.is_artifact() && image.arches().count() < image.platforms.len() {
            return Err(invalid("platforms of", &image.name.to_string()));
        }
        if let Some(checksum) = &image.checksum {
            let shown = image.name.to_string();
            only_signed(checksum, image.signature.is_some(), &shown)?;
        }
        if let Some(signature) = &image.signature {
            signer(&signature.by)?;
            let rest = signature.blobs.iter().map(|blob| (blob, LARGEST_PART));
            let manifests = std::iter::once(&signature.manifest).chain(&signature.referrers);
            let manifests = manifests.map(|manifest| (manifest, LARGEST_MANIFEST as u64));
            small(rest.chain(manifests))?;
        }
    }
    for set in &lock.packages {
        name("distribution", &set.distribution)?;
        name("release", &set.release)?;
        packages(set)?;
    }
    let mut names = BTreeSet::new();
    for artifact in &lock.artifacts {
        only_signed(&artifact.checksum, false, &artifact.name)?;
        name("name", &artifact.name)?;
        if let Some(version) = &artifact.version {
            name("version", version)?;
        }
        // `bundle extract` writes files with these names.
        if !names.insert((artifact.kind, artifact.file_name())) {
            return Err(invalid("duplicate name", &artifact.name));
        }
    }
    sizes(lock)
}

/// Checks that an item whose only trust basis is a signature has one.
fn only_signed(checksum: &ChecksumSource, is_signed: bool, name: &str) -> Result<(), Message> {
    if *checksum == ChecksumSource::Signed && !is_signed {
        Err(invalid("checksum of", name))
    } else {
        Ok(())
    }
}

/// Checks a signer, whose name appears on terminals.
fn signer(signer: &Signer) -> Result<(), Message> {
    match signer {
        Signer::Identity {
            subject, issuer, ..
        } if !(is_printable(subject) && is_printable(issuer)) => Err(invalid("signer", subject)),
        _ => Ok(()),
    }
}

/// Checks the sizes of signatures, which are read into memory.
fn small<'a>(blobs: impl Iterator<Item = (&'a Descriptor, u64)>) -> Result<(), Message> {
    let mut blobs = blobs;
    if blobs.all(|(blob, largest)| blob.size <= largest) {
        Ok(())
    } else {
        Err(invalid("size of", "a signature"))
    }
}

/// Checks a package set. Package names become arguments of commands, so they must not look like options.
/// Their files become members of an archive that hosts unpack, so file names must be unique.
fn packages(set: &LockedPackages) -> Result<(), Message> {
    if set.index.media_type != set.format.index_type() {
        return Err(invalid("package index", &set.index.media_type));
    }
    for requested in &set.requested {
        argument("package", requested)?;
    }
    let mut files = BTreeSet::new();
    for package in &set.packages {
        argument("package", &package.name)?;
        argument("package version", &package.version)?;
        argument("file name", &package.file_name)?;
        let is_package = package.file_name.ends_with(set.format.suffix());
        if !is_package || !files.insert(&package.file_name) {
            return Err(invalid("package file", &package.file_name));
        }
    }
    Ok(())
}

/// Returns whether a lock can have this name of a package's file: not empty, at most 255 bytes, without white space,
/// control characters and separators of paths, and without `-` or `.` at the beginning.
pub fn is_package_file(name: &str) -> bool {
    argument("file name", name).is_ok()
}

/// Checks a name that must not look like an option.
fn argument(what: &str, text: &str) -> Result<(), Message> {
    if text.starts_with('-') {
        Err(invalid(what, text))
    } else {
        name(what, text)
    }
}

/// Checks a relative path that must stay below its directory.
fn path(text: &str) -> Result<(), Message> {
    text.split('/')
        .try_for_each(|part| name("path", part))
        .map_err(|_| invalid("path", text))
}

/// Checks that each digest has one size.
fn sizes(lock: &Lock) -> Result<(), Message> {
    let mut known: BTreeMap<Digest, u64> = BTreeMap::new();
    let files = lock.files.iter().flat_map(|file| {
        let beside = file.signature_blobs();
        let beside = beside.map(|(_, blob)| (blob.digest, blob.size));
        std::iter::once((file.digest, file.size)).chain(beside)
    });
    let images = lock.images.iter().flat_map(|image| {
        let below = image.platforms.iter().flat_map(|p| p.everything());
        std::iter::once(&image.manifest)
            .chain(below)
            .chain(image.signature_blobs())
            .map(|blob| (blob.digest, blob.size))
    });
    let packages = lock.packages.iter().flat_map(|set| {
        let index = (set.index.digest, set.index.size);
        let packages = set.packages.iter().map(|p| (p.digest, p.size));
        std::iter::once(index).chain(packages)
    });
    let artifacts = lock.artifacts.iter().map(|one| (one.digest, one.size));
    for (digest, size) in files.chain(images).chain(packages).chain(artifacts) {
        if *known.entry(digest).or_insert(size) != size {
            return Err(Message::new(format!("its lock has two sizes for {digest}"))
                .hint("do not use this bundle"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{LockedPackage, PackageFormat};
    use kubexm_types::Arch;

    fn set() -> LockedPackages {
        let package = |name: &str| LockedPackage {
            name: name.to_owned(),
            version: "2:1.0-1.el9".to_owned(),
            file_name: format!("{name}-1.0-1.el9.noarch.rpm"),
            url: "https://dnf.example/a.rpm".parse().unwrap(),
            size: 1,
            digest: Digest::of(name.as_bytes()),
        };
        LockedPackages {
            distribution: "rhel-like".to_owned(),
            release: "9".to_owned(),
            arch: Arch::Amd64,
            requested: vec!["a".to_owned()],
            format: PackageFormat::Rpm,
            index: Descriptor {
                media_type: PackageFormat::Rpm.index_type().to_owned(),
                digest: Digest::of(b""),
                size: 0,
            },
            packages: vec![package("a"), package("b")],
        }
    }

    #[test]
    fn names_of_packages_are_no_options_and_no_places() {
        packages(&set()).unwrap();
        let spoils: [fn(&mut LockedPackages); 9] = [
            |set| set.requested = vec!["--installroot=/".to_owned()],
            |set| set.requested = vec!["a b".to_owned()],
            |set| set.packages[0].name = "-e".to_owned(),
            |set| set.packages[0].name = "a\n".to_owned(),
            |set| set.packages[0].file_name = "../a.rpm".to_owned(),
            |set| set.packages[0].file_name = "SHA256SUMS".to_owned(),
            |set| set.packages[0].file_name = set.packages[1].file_name.clone(),
            |set| set.format = PackageFormat::Deb,
            |set| set.index.media_type = "text/plain".to_owned(),
        ];
        for (at, spoil) in spoils.iter().enumerate() {
            let mut set = set();
            spoil(&mut set);
            assert!(packages(&set).is_err(), "{at}");
        }
    }
}

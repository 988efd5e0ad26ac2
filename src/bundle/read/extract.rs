//! Extracts one item of a bundle by its name, without the rest.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, Write};

use crate::archive::each_member;
use crate::lock::user_content::LockedArtifact;
use crate::lock::{FileFormat, LockedFile, LockedPackage, Member};
use crate::{Blobs, Bundle, BundleError};
use kubexm_types::{Arch, Digest, DigestWriter, Message, Version};

/// An item in a bundle that a user can name.
#[derive(Debug, Clone, Copy)]
pub enum Item<'a> {
    /// A file as it was published.
    File(&'a LockedFile),
    /// A file inside a published archive.
    Member(&'a LockedFile, &'a Member),
    /// An OS package.
    Package(&'a LockedPackage),
    /// An artifact of the user.
    Artifact(&'a LockedArtifact),
}

impl Item<'_> {
    /// Returns the name of the extracted file.
    pub fn file_name(&self) -> Cow<'_, str> {
        match self {
            Self::File(file) => (&file.file_name).into(),
            Self::Member(_, member) => last(&member.path).into(),
            Self::Package(package) => (&package.file_name).into(),
            Self::Artifact(artifact) => artifact.file_name().into(),
        }
    }

    /// Returns a description that distinguishes items with the same name.
    pub fn describe(&self) -> String {
        match self {
            Self::File(file) => format!("{} {} {}", file.component, file.version, file.arch),
            Self::Member(file, member) => {
                format!(
                    "{} of {} {} {}",
                    member.path, file.component, file.version, file.arch
                )
            }
            Self::Package(package) => format!("{} {}", package.name, package.file_name),
            Self::Artifact(artifact) => artifact.describe(),
        }
    }

    /// Returns whether the extracted file must be executable.
    pub fn is_program(&self) -> bool {
        match self {
            Self::File(file) => file.format == FileFormat::Binary,
            Self::Member(..) => true,
            Self::Package(_) | Self::Artifact(_) => false,
        }
    }

    /// Returns the size of the extracted file in bytes, as the lock states it.
    pub fn size(&self) -> u64 {
        match self {
            Self::File(file) => file.size,
            Self::Member(_, member) => member.size,
            Self::Package(package) => package.size,
            Self::Artifact(artifact) => artifact.size,
        }
    }

    /// Returns the digest of the extracted file.
    fn content(&self) -> Digest {
        match self {
            Self::File(file) => file.digest,
            Self::Member(_, member) => member.digest,
            Self::Package(package) => package.digest,
            Self::Artifact(artifact) => artifact.digest,
        }
    }

    /// Writes the content to `out`. A caller must not use it unless this function succeeds, because the
    /// digest is compared at the end.
    ///
    /// # Errors
    /// The bundle is damaged, or `out` fails.
    pub fn copy(&self, bundle: &Bundle, out: &mut dyn Write) -> Result<(), BundleError> {
        let digest = match self {
            Self::File(file) | Self::Member(file, _) => file.digest,
            Self::Package(package) => package.digest,
            Self::Artifact(artifact) => artifact.digest,
        };
        let failed = |source: io::Error| BundleError::io(bundle.path(), source);
        let Self::Member(file, member) = self else {
            let mut blob = bundle.open(&digest)?;
            return io::copy(&mut blob, out).map(|_| ()).map_err(failed);
        };
        let mut hashed = DigestWriter::new(out);
        each_member(
            bundle.open_content_for_hashing(&digest)?,
            |path, content| {
                if path == member.path {
                    io::copy(content, &mut hashed).map(|_| ())
                } else {
                    Ok(())
                }
            },
        )
        .map_err(failed)?;
        let (_, got, _) = hashed.finish();
        if got == member.digest {
            return Ok(());
        }
        let (path, expected) = (&member.path, &member.digest);
        Err(BundleError::Damaged {
            path: bundle.path().display().to_string(),
            reason: Message::new(format!(
                "{path} in {} is damaged: expected {expected}, got {got}",
                file.file_name
            ))
            .hint("copy the bundle again"),
        })
    }
}

/// Returns the items with this name, version and architecture: programs, components, files, packages and
/// artifacts. Programs in archives take precedence over the archives. Items with the same name and content
/// are returned once.
pub fn find<'a>(
    bundle: &'a Bundle,
    name: &str,
    version: Option<&Version>,
    arch: Option<Arch>,
) -> Vec<Item<'a>> {
    let lock = bundle.lock();
    let files = || {
        lock.files.iter().filter(move |file| {
            version.is_none_or(|version| file.version == *version)
                && arch.is_none_or(|arch| file.arch == arch)
        })
    };
    let members = files().flat_map(|file| {
        let members = file.members.iter();
        members.map(move |member| Item::Member(file, member))
    });
    let programs: Vec<Item<'_>> = members
        .filter(|item| item.file_name() == name)
        .chain(
            files()
                .filter(|file| file.file_name == name)
                .map(Item::File),
        )
        .collect();
    if !programs.is_empty() {
        return distinct(programs);
    }
    let components = files().filter(|file| file.component == name);
    let packages = lock
        .packages
        .iter()
        .filter(|set| arch.is_none_or(|arch| set.arch == arch))
        .flat_map(|set| &set.packages)
        .filter(|package| package.name == name || package.file_name == name);
    let artifacts = lock.artifacts.iter();
    let artifacts =
        artifacts.filter(|artifact| artifact.name == name || artifact.file_name() == name);
    let found = components
        .map(Item::File)
        .chain(packages.map(Item::Package))
        .chain(artifacts.map(Item::Artifact));
    distinct(found.collect())
}

/// Removes items with the name and content of an earlier one.
fn distinct(mut items: Vec<Item<'_>>) -> Vec<Item<'_>> {
    let mut seen = BTreeSet::new();
    items.retain(|item| seen.insert((item.file_name().into_owned(), item.content())));
    items
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

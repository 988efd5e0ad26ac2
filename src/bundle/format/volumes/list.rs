//! The list of volumes with their digests, in the format of `sha256sum --check`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::paths::{list_path, volume_path, without_suffix};
use super::search::locate;
use crate::BundleError;
use kubexm_types::{Digest, DigestReader, Message};

/// Maximum size of a list of volumes, in bytes.
const LARGEST_LIST: u64 = 1024 * 1024;
pub(super) fn damaged() -> Message {
    Message::new("this volume is damaged").hint("copy it again")
}

/// Compares one volume with the list. The other volumes may be absent.
///
/// # Errors
/// The list is missing or does not contain the volume, or the volume cannot be read or is damaged.
pub fn check_volume(path: &Path, folders: &[PathBuf]) -> Result<Digest, BundleError> {
    let name = without_suffix(path).unwrap_or_else(|| path.to_owned());
    let list = read_list(&name, folders)?.ok_or_else(|| {
        BundleError::damaged(
            &list_path(&name),
            Message::new("the list of volumes is missing")
                .hint("copy it into the directory of the volume"),
        )
    })?;
    let number = (1..=list.len()).find(|number| volume_path(&name, *number) == path);
    let expected = number.map(|number| list[number - 1]).ok_or_else(|| {
        BundleError::damaged(
            path,
            Message::new("the list of volumes does not name this volume")
                .hint("check that the list and the volume belong to the same bundle"),
        )
    })?;
    let got = hash_file(path).map_err(|source| BundleError::io(path, source))?;
    if got == expected {
        Ok(got)
    } else {
        Err(BundleError::damaged(path, damaged()))
    }
}

/// Returns the number of volumes in the list of a bundle; 0 without a list.
pub fn listed_volumes(name: &Path) -> usize {
    let list = read_list(name, &[]).ok().flatten();
    list.map_or(0, |list| list.len())
}

pub(super) fn hash_file(path: &Path) -> io::Result<Digest> {
    let mut file = DigestReader::new(File::open(path)?);
    let mut buffer = vec![0; 1 << 18];
    while file.read(&mut buffer)? > 0 {}
    Ok(file.finish().0)
}

/// Returns the digests of a bundle's volumes in order, or `None` without a list.
pub(super) fn read_list(
    name: &Path,
    folders: &[PathBuf],
) -> Result<Option<Vec<Digest>>, BundleError> {
    let Some((path, size)) = locate(&list_path(name), folders) else {
        return Ok(None);
    };
    let unreadable = || {
        BundleError::damaged(
            &path,
            Message::new("is not a list of volumes").hint("copy it again"),
        )
    };
    if size > LARGEST_LIST {
        return Err(unreadable());
    }
    let text = std::fs::read_to_string(&path).map_err(|_| unreadable())?;
    let mut digests = Vec::new();
    for line in text.lines() {
        let (digest, volume) = line.split_once("  ").ok_or_else(unreadable)?;
        let expected = volume_path(name, digests.len() + 1);
        if expected.file_name().and_then(|name| name.to_str()) != Some(volume) {
            return Err(BundleError::damaged(
                &path,
                Message::new(format!(
                    "lists '{}' instead of {}",
                    volume.escape_default(),
                    expected.display()
                ))
                .hint("give the volumes and their list the names that they had"),
            ));
        }
        digests.push(digest.parse().map_err(|_| unreadable())?);
    }
    if digests.is_empty() {
        Err(unreadable())
    } else {
        Ok(Some(digests))
    }
}

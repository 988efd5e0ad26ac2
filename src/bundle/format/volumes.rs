//! The bytes of a bundle: one file, or volumes in sequence.
//!
//! Volumes are the bundle split at byte offsets: `cat B.tar.zst.??? > B.tar.zst` joins them. The list
//! `B.tar.zst.sha256` is in the format of `sha256sum --check`, so that a site checks a USB stick without
//! kubexm.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::BundleError;
use kubexm_types::{Digest, DigestReader};

/// File name extension of the list of volumes.
const LIST: &str = "sha256";
/// The end of the file name of a bundle.
const EXTENSION: &str = ".tar.zst";
/// Maximum size of a list of volumes, in bytes.
const LARGEST_LIST: u64 = 1024 * 1024;
const DAMAGED: &str = "this volume is damaged\nhint: copy it again";
/// Minimum number of digits of a volume's number.
const DIGITS: usize = 3;

/// The file or the volumes of a bundle.
#[derive(Debug, Clone)]
pub struct VolumeSet {
    /// Path of the file, or of the volumes without their numbers.
    name: PathBuf,
    /// Never empty.
    parts: Vec<Part>,
    /// Digests of the list of volumes, if there is one.
    digests: Option<Vec<Digest>>,
    size: u64,
}

#[derive(Debug, Clone)]
struct Part {
    path: PathBuf,
    /// Offset in the bundle.
    start: u64,
    size: u64,
}

/// Returns the path of a volume, counted from 1: `B.tar.zst.001`.
pub fn volume_path(name: &Path, number: usize) -> PathBuf {
    with_suffix(name, &format!("{number:0DIGITS$}"))
}

/// Returns the path of the list of volumes: `B.tar.zst.sha256`.
pub fn list_path(name: &Path) -> PathBuf {
    with_suffix(name, LIST)
}

fn with_suffix(name: &Path, suffix: &str) -> PathBuf {
    let mut name = name.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

/// Returns the path of the bundle if `path` is one of its volumes or their list.
fn without_suffix(path: &Path) -> Option<PathBuf> {
    let suffix = path.extension()?.to_str()?;
    let number = suffix.len() >= DIGITS && suffix.bytes().all(|byte| byte.is_ascii_digit());
    (number || suffix == LIST).then(|| path.with_extension(""))
}

/// Returns the path of the only bundle in a directory, such as a USB stick.
fn only_bundle(folder: &Path) -> Result<PathBuf, BundleError> {
    let failed = |source| BundleError::io(folder, source);
    let mut bundles = BTreeSet::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            continue;
        }
        let name = without_suffix(&path).unwrap_or(path);
        let text = name.file_name().and_then(|name| name.to_str());
        // macOS writes files such as `._B.tar.zst` on sticks.
        if text.is_some_and(|text| text.ends_with(EXTENSION) && !text.starts_with('.')) {
            bundles.insert(name);
        }
    }
    let names = bundles.iter().filter_map(|path| path.file_name());
    let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
    let names = names.join(", ");
    match (bundles.pop_first(), bundles.is_empty()) {
        (Some(only), true) => Ok(only),
        (None, _) => Err(damaged(
            folder,
            "this directory does not contain a bundle (a file that ends with .tar.zst, or its volumes)\n\
             hint: give the path of a bundle, as in bundles/kubernetes-1.36.tar.zst",
        )),
        (Some(_), false) => Err(damaged(
            folder,
            &format!(
                "this directory contains several bundles: {names}\nhint: give the path of one of them"
            ),
        )),
    }
}

impl VolumeSet {
    /// Finds a bundle by the path of its file, of a volume, of the list of volumes, of the volumes without their
    /// numbers, or of the directory that contains it. Searches volumes in `folders`, too.
    ///
    /// # Errors
    /// The file does not exist, a volume is missing or has a wrong length, or the directory does not contain exactly one
    /// bundle.
    pub fn find(path: &Path, folders: &[PathBuf]) -> Result<Self, BundleError> {
        let failed = |source| BundleError::io(path, source);
        // The metadata comes first, because opening a FIFO would wait for a writer.
        match (std::fs::metadata(path), without_suffix(path)) {
            (Ok(found), Some(name)) if !found.is_dir() => Self::open_volumes(name, folders),
            (Ok(found), _) if found.is_file() => Ok(Self {
                name: path.to_owned(),
                parts: vec![Part {
                    path: path.to_owned(),
                    start: 0,
                    size: found.len(),
                }],
                digests: None,
                size: found.len(),
            }),
            (Ok(found), _) if found.is_dir() => Self::find(&only_bundle(path)?, folders),
            (Ok(_), _) => Err(damaged(
                path,
                "is not a regular file\nhint: give the path of a bundle, as in bundles/kubernetes-1.36.tar.zst",
            )),
            (Err(error), suffixed) if error.kind() == io::ErrorKind::NotFound => {
                let is_split = locate(&volume_path(path, 1), folders).is_some()
                    || locate(&list_path(path), folders).is_some();
                match is_split && suffixed.is_none() {
                    true => Self::open_volumes(path.to_owned(), folders),
                    false => Err(BundleError::NoFile {
                        path: path.display().to_string(),
                    }),
                }
            }
            (Err(error), _) => Err(failed(error)),
        }
    }

    fn open_volumes(name: PathBuf, folders: &[PathBuf]) -> Result<Self, BundleError> {
        let digests = read_list(&name, folders)?;
        let mut parts: Vec<Part> = Vec::new();
        let mut start = 0;
        for number in 1.. {
            if digests.as_ref().is_some_and(|list| number > list.len()) {
                break;
            }
            let path = volume_path(&name, number);
            let Some((path, size)) = locate(&path, folders) else {
                // Without a list, the seek table shows whether this was the last volume.
                if digests.is_none() && number > 1 {
                    break;
                }
                return Err(damaged(
                    &path,
                    "this volume of the bundle is missing\nhint: copy it into the directory of the \
                     others, or name its directory with --volumes",
                ));
            };
            parts.push(Part { path, start, size });
            start += size;
        }
        let volumes = Self {
            name,
            parts,
            digests,
            size: start,
        };
        volumes.check_lengths()?;
        Ok(volumes)
    }

    /// Checks that all volumes except the last one have equal lengths, and that the last is not longer.
    fn check_lengths(&self) -> Result<(), BundleError> {
        let Some((last, rest)) = self.parts.split_last() else {
            return Ok(());
        };
        let length = rest.iter().map(|part| part.size).max().unwrap_or(last.size);
        let wrong = rest.iter().find(|part| part.size != length);
        let wrong = wrong.or((last.size > length || last.size == 0).then_some(last));
        match wrong {
            None => Ok(()),
            Some(part) => Err(damaged(
                &part.path,
                &format!(
                    "this volume has {} bytes, and the others have {length}\nhint: copy it again",
                    part.size
                ),
            )),
        }
    }

    /// Returns the path of the bundle.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Returns the size of the bundle in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the number of volumes, or `None` for a bundle that is one file.
    pub fn count(&self) -> Option<usize> {
        let whole = matches!(&self.parts[..], [part] if part.path == self.name);
        (!whole).then_some(self.parts.len())
    }

    /// Returns the last volume if the volumes have no list.
    pub fn perhaps_not_last(&self) -> Option<&Path> {
        self.count()?;
        let last = self.parts.last().filter(|_| self.digests.is_none())?;
        Some(&last.path)
    }

    /// Returns a reader from `offset` to the end.
    pub fn reader(&self, offset: u64) -> VolumeReader {
        let mut left = self.parts.clone();
        left.retain(|part| part.start + part.size > offset);
        left.reverse();
        VolumeReader {
            left,
            offset,
            open: None,
        }
    }

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// A file cannot be read, or the bundle ends earlier.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.reader(offset).read_exact(buffer)
    }

    /// Returns one line for each volume that differs from the list or cannot be read; nothing without a
    /// list.
    pub fn damaged_volumes(&self) -> Vec<String> {
        let listed = self.digests.iter().flatten().zip(&self.parts);
        let wrong = listed.filter_map(|(digest, part)| {
            let reason = match hash_file(&part.path) {
                Ok(got) if got == *digest => return None,
                Ok(_) => "this volume is damaged".to_owned(),
                Err(error) => error.to_string(),
            };
            Some(format!("{}: {reason}", part.path.display()))
        });
        wrong.collect()
    }

    /// Streams all bytes to `take`, and compares each volume with the list if there is one.
    ///
    /// # Errors
    /// A volume cannot be read or is damaged, or `take` fails.
    pub fn copy(
        &self,
        mut take: impl FnMut(&[u8]) -> Result<(), BundleError>,
    ) -> Result<(), BundleError> {
        let mut buffer = vec![0; 1 << 18];
        for (at, part) in self.parts.iter().enumerate() {
            let failed = |source| BundleError::io(&part.path, source);
            let mut file = DigestReader::new(File::open(&part.path).map_err(failed)?);
            loop {
                let count = file.read(&mut buffer).map_err(failed)?;
                if count == 0 {
                    break;
                }
                take(&buffer[..count])?;
            }
            let expected = self.digests.as_ref().and_then(|list| list.get(at));
            if expected.is_some_and(|expected| file.finish().0 != *expected) {
                return Err(damaged(&part.path, DAMAGED));
            }
        }
        Ok(())
    }
}

/// Compares one volume with the list. The other volumes may be absent.
///
/// # Errors
/// The list is missing or does not contain the volume, or the volume cannot be read or is damaged.
pub fn check_volume(path: &Path, folders: &[PathBuf]) -> Result<Digest, BundleError> {
    let name = without_suffix(path).unwrap_or_else(|| path.to_owned());
    let list = read_list(&name, folders)?.ok_or_else(|| {
        damaged(
            &list_path(&name),
            "the list of volumes is missing\nhint: copy it into the directory of the volume",
        )
    })?;
    let number = (1..=list.len()).find(|number| volume_path(&name, *number) == path);
    let expected = number.map(|number| list[number - 1]).ok_or_else(|| {
        damaged(
            path,
            "the list of volumes does not name this volume\nhint: check that the list and the volume belong to the same bundle",
        )
    })?;
    let got = hash_file(path).map_err(|source| BundleError::io(path, source))?;
    match got == expected {
        true => Ok(got),
        false => Err(damaged(path, DAMAGED)),
    }
}

/// Returns the number of volumes in the list of a bundle; 0 without a list.
pub fn listed_volumes(name: &Path) -> usize {
    let list = read_list(name, &[]).ok().flatten();
    list.map_or(0, |list| list.len())
}

fn hash_file(path: &Path) -> io::Result<Digest> {
    let mut file = DigestReader::new(File::open(path)?);
    let mut buffer = vec![0; 1 << 18];
    while file.read(&mut buffer)? > 0 {}
    Ok(file.finish().0)
}

/// Returns the first regular file with this name, here or in one of the folders.
fn locate(path: &Path, folders: &[PathBuf]) -> Option<(PathBuf, u64)> {
    let file_name = path.file_name()?;
    let elsewhere = folders.iter().map(|folder| folder.join(file_name));
    std::iter::once(path.to_owned())
        .chain(elsewhere)
        .find_map(|path| {
            let found = std::fs::metadata(&path).ok().filter(|m| m.is_file())?;
            Some((path, found.len()))
        })
}

/// Returns the digests of a bundle's volumes in order, or `None` without a list.
fn read_list(name: &Path, folders: &[PathBuf]) -> Result<Option<Vec<Digest>>, BundleError> {
    let Some((path, size)) = locate(&list_path(name), folders) else {
        return Ok(None);
    };
    let unreadable = || damaged(&path, "is not a list of volumes\nhint: copy it again");
    if size > LARGEST_LIST {
        return Err(unreadable());
    }
    let text = std::fs::read_to_string(&path).map_err(|_| unreadable())?;
    let mut digests = Vec::new();
    for line in text.lines() {
        let (digest, volume) = line.split_once("  ").ok_or_else(unreadable)?;
        let expected = volume_path(name, digests.len() + 1);
        if expected.file_name().and_then(|name| name.to_str()) != Some(volume) {
            return Err(damaged(
                &path,
                &format!(
                    "lists '{}' instead of {}\nhint: give the volumes and their list the names that they had",
                    volume.escape_default(),
                    expected.display()
                ),
            ));
        }
        digests.push(digest.parse().map_err(|_| unreadable())?);
    }
    match digests.is_empty() {
        true => Err(unreadable()),
        false => Ok(Some(digests)),
    }
}

fn damaged(path: &Path, reason: &str) -> BundleError {
    BundleError::Damaged {
        path: path.display().to_string(),
        reason: reason.to_owned(),
    }
}

/// Reads a bundle across its volumes.
#[derive(Debug)]
pub struct VolumeReader {
    /// Volumes that are not read yet; the next one is last.
    left: Vec<Part>,
    offset: u64,
    open: Option<(File, PathBuf)>,
}

impl VolumeReader {
    fn open_next(&mut self) -> io::Result<bool> {
        let Some(part) = self.left.pop() else {
            return Ok(false);
        };
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", part.path.display()))
        };
        let mut file = File::open(&part.path).map_err(named)?;
        file.seek(SeekFrom::Start(self.offset - part.start))
            .map_err(named)?;
        self.open = Some((file, part.path));
        Ok(true)
    }
}

/// A file whose disk failed. The source shows what users can do.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {source}")]
struct Unreadable {
    path: String,
    source: io::Error,
}

impl Read for VolumeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some((file, path)) = &mut self.open {
                let count = file.read(buffer).map_err(|error| {
                    let path = path.display().to_string();
                    io::Error::new(
                        error.kind(),
                        Unreadable {
                            path,
                            source: error,
                        },
                    )
                })?;
                if count > 0 || buffer.is_empty() {
                    self.offset += count as u64;
                    return Ok(count);
                }
            }
            if !self.open_next()? {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the source, an install that loses the medium of its bundle cannot state what to do about the disk.
    #[test]
    fn failed_read_names_the_file_and_keeps_the_cause() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let mut reader = VolumeReader {
            left: Vec::new(),
            offset: 0,
            open: Some((File::open(&path).unwrap(), path.clone())),
        };
        // EISDIR: a directory cannot be read.
        let error = reader.read(&mut [0; 1]).unwrap_err();
        let name = path.display().to_string();
        assert!(
            error.to_string().starts_with(&format!("{name}: ")),
            "{error}"
        );
        let cause = error.get_ref().and_then(|inner| inner.source());
        let cause = cause.and_then(|cause| cause.downcast_ref::<io::Error>());
        assert_eq!(cause.and_then(io::Error::raw_os_error), Some(21));
    }
}

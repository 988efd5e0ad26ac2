//! The bytes of a bundle: one file, or volumes in sequence.
//!
//! Volumes are the bundle split at byte offsets: `cat B.tar.zst.??? > B.tar.zst` joins them. The list
//! `B.tar.zst.sha256` is in the format of `sha256sum --check`, so that a site checks a USB stick without
//! kubexm.

mod list;
mod paths;
mod reader;
mod search;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

pub use list::{check_volume, listed_volumes};
use list::{damaged, hash_file, read_list};
use paths::without_suffix;
pub use paths::{list_path, volume_path};
use reader::Part;
pub use reader::VolumeReader;
use search::{locate, only_bundle};

use crate::BundleError;
use kubexm_types::{Digest, DigestReader, Message};

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
            (Ok(_), _) => Err(BundleError::damaged(
                path,
                Message::new("is not a regular file")
                    .hint("give the path of a bundle, as in bundles/kubernetes-1.36.tar.zst"),
            )),
            (Err(error), suffixed) if error.kind() == io::ErrorKind::NotFound => {
                let is_split = locate(&volume_path(path, 1), folders).is_some()
                    || locate(&list_path(path), folders).is_some();
                if is_split && suffixed.is_none() {
                    Self::open_volumes(path.to_owned(), folders)
                } else {
                    Err(BundleError::NoFile {
                        path: path.display().to_string(),
                    })
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
                return Err(BundleError::damaged(
                    &path,
                    Message::new("this volume of the bundle is missing").hint(
                        "copy it into the directory of the \
                     others, or name its directory with --volumes",
                    ),
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
            Some(part) => Err(BundleError::damaged(
                &part.path,
                Message::new(format!(
                    "this volume has {} bytes, and the others have {length}",
                    part.size
                ))
                .hint("copy it again"),
            )),
        }
    }

    /// Returns the path of the bundle.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Returns the paths of the file or of all volumes.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().map(|part| &*part.path)
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
        VolumeReader::new(&self.parts, offset)
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
                return Err(BundleError::damaged(&part.path, damaged()));
            }
        }
        Ok(())
    }
}

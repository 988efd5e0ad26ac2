//! Reads a bundle across its volumes.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

/// A volume, or the only file of a bundle.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) path: PathBuf,
    /// Offset in the bundle.
    pub(super) start: u64,
    pub(super) size: u64,
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
    /// Returns a reader of these volumes from an offset in the bundle.
    pub(super) fn new(parts: &[Part], offset: u64) -> Self {
        let mut left = parts.to_vec();
        left.retain(|part| part.start + part.size > offset);
        left.reverse();
        Self {
            left,
            offset,
            open: None,
        }
    }

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

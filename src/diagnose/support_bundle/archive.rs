//! The file of a support bundle: a tar archive, compressed with zstd.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use kubexm_session::{CommandError, FileError};
use kubexm_types::{AtomicFile, redacted};

/// What fails if the archive cannot be written.
const WRITE: &str = "write the support bundle";
/// The level of zstd.
const LEVEL: i32 = 6;

/// An archive that gets its name when it is complete. Only the user can read it.
pub(super) struct Archive {
    path: PathBuf,
    builder: tar::Builder<zstd::Encoder<'static, AtomicFile>>,
    files: u64,
    time: u64,
}

impl Archive {
    /// Begins a new file.
    ///
    /// # Errors
    /// The path exists, or its directory does not exist or cannot be written.
    pub(super) fn create(path: &Path) -> Result<Self, CommandError> {
        check_absence(path)?;
        let file = AtomicFile::create(path, 0o600);
        let builder = file.and_then(|file| Ok(tar::Builder::new(zstd::Encoder::new(file, LEVEL)?)));
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Ok(Self {
            path: path.to_owned(),
            builder: builder.map_err(|error| {
                FileError::io(WRITE, path, &error).hint(
                    "name a file in a directory that exists and that you can write to with -o",
                )
            })?,
            files: 0,
            time: time.map_or(0, |time| time.as_secs()),
        })
    }

    /// Adds a text. What looks like a secret is replaced: the file never has it.
    pub(super) fn add_text(&mut self, name: &str, text: &str) -> Result<(), CommandError> {
        self.add(name, redacted::without(text).as_bytes())
    }

    /// Adds a document. Its texts quote hosts and the API, so that what looks like a secret in them is replaced.
    pub(super) fn add_json(
        &mut self,
        name: &str,
        value: &impl Serialize,
    ) -> Result<(), CommandError> {
        let mut document = serde_json::to_value(value).map_err(CommandError::defect)?;
        redacted::remove_from(&mut document);
        let text = serde_json::to_vec_pretty(&document).map_err(CommandError::defect)?;
        self.add(name, &text)
    }

    fn add(&mut self, name: &str, content: &[u8]) -> Result<(), CommandError> {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(self.time);
        header.set_entry_type(tar::EntryType::Regular);
        let name = format!("support/{name}");
        let added = self.builder.append_data(&mut header, name, content);
        self.files += 1;
        added.map_err(|error| self.failed(&error))
    }

    /// Completes the file. Returns its size in bytes, and the number of files in it.
    pub(super) fn finish(self) -> Result<(u64, u64), CommandError> {
        let path = self.path;
        let finish =
            |builder: tar::Builder<zstd::Encoder<'static, AtomicFile>>| -> io::Result<u64> {
                let file = builder.into_inner()?.finish()?;
                let size = file.as_file().metadata()?.len();
                file.commit()?;
                Ok(size)
            };
        let size = finish(self.builder).map_err(|error| FileError::io(WRITE, &path, &error))?;
        Ok((size, self.files))
    }

    fn failed(&self, error: &io::Error) -> CommandError {
        FileError::io(WRITE, &self.path, error).into()
    }
}

/// Fails if the path exists: an older archive is perhaps the only state before a repair.
fn check_absence(path: &Path) -> Result<(), CommandError> {
    let (cause, hint) = match std::fs::symlink_metadata(path) {
        Ok(_) if path.is_dir() => ("it is a directory", "give the path of a file with -o"),
        Ok(_) => ("the file exists", "remove it, or name another file with -o"),
        Err(_) => return Ok(()),
    };
    Err(FileError::new(WRITE, path, cause).hint(hint).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_that_cannot_become_the_archive_has_a_hint() {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join("old.tar.zst");
        std::fs::write(&old, "before").unwrap();
        for (path, rest) in [
            (
                old.clone(),
                "the file exists\nhint: remove it, or name another file with -o",
            ),
            (
                folder.path().to_owned(),
                "it is a directory\nhint: give the path of a file with -o",
            ),
        ] {
            let refused = Archive::create(&path).err().unwrap().to_string();
            let expected = format!("cannot write the support bundle {}: {rest}", path.display());
            assert_eq!(refused, expected);
        }
        let refused = Archive::create(&folder.path().join("absent/new")).err();
        let refused = refused.unwrap().to_string();
        assert!(
            refused.contains("\nhint: name a file in a directory"),
            "{refused}"
        );
        assert_eq!(std::fs::read(&old).unwrap(), b"before");
        Archive::create(&folder.path().join("new.tar.zst")).unwrap();
    }
}

//! Files that get their name only when they are complete.

use std::fs::{DirEntry, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::NamedTempFile;

const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A file that replaces `target` when it is complete.
///
/// Until [`AtomicFile::commit`], the content is in a file with an unpredictable name in the same
/// folder. Without a commit, that file is removed and the target stays as it was. After a power cut
/// the target has the old or the new content, never a part of either.
pub struct AtomicFile {
    partial: NamedTempFile,
    target: PathBuf,
}

impl AtomicFile {
    /// The names of uncommitted files start with this. A process that was killed leaves such a file.
    pub const PREFIX: &str = ".kubexm-partial-";

    /// Creates the file beside `target` with these permission bits, minus the process's umask.
    ///
    /// # Errors
    /// The folder does not exist or cannot be written.
    pub fn create(target: &Path, mode: u32) -> io::Result<Self> {
        Self::create_in(folder_of(target), target, mode)
    }

    /// Creates the file in another folder of the same file system.
    ///
    /// # Errors
    /// The folder does not exist or cannot be written.
    pub fn create_in(folder: &Path, target: &Path, mode: u32) -> io::Result<Self> {
        let partial = tempfile::Builder::new()
            .prefix(Self::PREFIX)
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(folder)
            .map_err(without_name)?;
        Ok(Self {
            partial,
            target: target.to_owned(),
        })
    }

    /// Removes the uncommitted files that killed processes have left in a folder: those that no process has written for a day.
    /// If the file system refuses to remove a file, it stays: it only takes space.
    pub fn remove_abandoned(folder: &Path) {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for file in files.filter(|file| is_abandoned(file).unwrap_or(false)) {
            let _ = std::fs::remove_file(file.path());
        }
    }

    /// Returns the open file.
    pub fn as_file(&self) -> &File {
        self.partial.as_file()
    }

    /// Returns the open file for a writer that needs `&mut`.
    pub fn as_file_mut(&mut self) -> &mut File {
        self.partial.as_file_mut()
    }

    /// Writes the content to the disk, gives the file its name, and writes the folder to the disk.
    ///
    /// # Errors
    /// The disk is full or fails. The target is then unchanged, unless only the last write failed.
    pub fn commit(self) -> io::Result<()> {
        self.partial.as_file().sync_all()?;
        self.partial
            .persist(&self.target)
            .map_err(|error| error.error)?;
        File::open(folder_of(&self.target))?.sync_all()
    }
}

impl Write for AtomicFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.partial.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.partial.flush()
    }
}

fn is_abandoned(file: &DirEntry) -> io::Result<bool> {
    // Those of a link itself.
    let about = file.metadata()?;
    let name = file.file_name();
    let is_partial = name.to_string_lossy().starts_with(AtomicFile::PREFIX);
    // A time in the future counts as now.
    let age = about.modified()?.elapsed().unwrap_or_default();
    Ok(is_partial && about.is_file() && age > A_DAY)
}

/// Removes the name of the temporary file from an error: users do not know the file.
fn without_name(error: io::Error) -> io::Error {
    let text = error.to_string();
    match text.split_once(" at path ") {
        Some((cause, _)) => io::Error::new(error.kind(), cause),
        None => error,
    }
}

/// Replaces the content of `target`, or creates it.
///
/// # Errors
/// See [`AtomicFile::create`] and [`AtomicFile::commit`].
pub fn write_atomic(target: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = AtomicFile::create(target, mode)?;
    file.write_all(content)?;
    file.commit()
}

/// Removes a file, if it exists.
///
/// # Errors
/// The file system refuses it.
pub fn remove_if_exists(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn content_and_mode_replace_the_target_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("key");
        std::fs::write(&target, "old and longer").unwrap();
        let mut file = AtomicFile::create(&target, 0o600).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"old and longer");
        file.commit().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"new");
        let mode = std::fs::metadata(&target).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(names(folder.path()), ["key"]);
    }

    #[test]
    fn an_uncommitted_file_leaves_the_target_and_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("key");
        write_atomic(&target, b"old", 0o644).unwrap();
        let mut file = AtomicFile::create(&target, 0o644).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(std::fs::read(&target).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["key"]);
    }

    #[test]
    fn files_that_killed_processes_have_left_are_removed_after_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let old = std::time::SystemTime::now() - 2 * A_DAY;
        for (name, is_old) in [("backup", true), ("old", true), ("new", false)] {
            let path = folder.path().join(match name {
                "backup" => name.to_owned(),
                _ => format!("{}{name}", AtomicFile::PREFIX),
            });
            let file = File::create(path).unwrap();
            if is_old {
                file.set_modified(old).unwrap();
            }
        }
        let linked = format!("{}link", AtomicFile::PREFIX);
        std::os::unix::fs::symlink("backup", folder.path().join(&linked)).unwrap();
        AtomicFile::remove_abandoned(folder.path());
        let mut left = names(folder.path());
        left.sort();
        assert_eq!(left, [linked.as_str(), ".kubexm-partial-new", "backup"]);
        AtomicFile::remove_abandoned(&folder.path().join("missing"));
    }

    #[test]
    fn a_link_is_replaced_and_its_file_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let (other, target) = (folder.path().join("other"), folder.path().join("key"));
        std::fs::write(&other, "theirs").unwrap();
        std::os::unix::fs::symlink(&other, &target).unwrap();
        write_atomic(&target, b"ours", 0o600).unwrap();
        assert_eq!(std::fs::read(&other).unwrap(), b"theirs");
        assert!(!target.symlink_metadata().unwrap().is_symlink());
    }
}

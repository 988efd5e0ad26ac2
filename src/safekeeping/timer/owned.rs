//! Files and directories that root creates for the user of a timer, in directories of that user. The user can exchange names there
//! at any time, so owners change by open files, and no link is followed.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use kubexm_types::AtomicFile;
use nix::fcntl::OFlag;

/// A directory that stays the same one, whatever its path leads to later.
pub(super) struct Folder(File);

impl Folder {
    /// Opens a directory.
    ///
    /// # Errors
    /// The path leads to something else.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
        let mut options = OpenOptions::new();
        let options = options.read(true).custom_flags(flags.bits());
        Ok(Self(options.open(path)?))
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    /// Replaces a file, which belongs to the owner of the directory.
    ///
    /// # Errors
    /// The file system refuses it.
    pub(super) fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let owner = self.0.metadata()?;
        let mut file = AtomicFile::create(&self.path().join(name), 0o600)?;
        file.write_all(content)?;
        fchown(file.as_file(), Some(owner.uid()), Some(owner.gid()))?;
        file.commit()
    }

    /// Gives an empty directory of this process to a user.
    fn give_to(&self, user: u32) -> io::Result<()> {
        let own = std::fs::metadata("/proc/self")?.uid();
        let is_new = self.0.metadata()?.uid() == own && self.path().read_dir()?.next().is_none();
        if !is_new {
            return Err(io::Error::other("another program has exchanged it"));
        }
        fchown(&self.0, Some(user), None)
    }
}

/// Creates a directory, and those above it, for a user. Those that exist keep their owners.
///
/// # Errors
/// The file system refuses one. The error has its path.
pub(super) fn create(folder: &Path, user: u32) -> Result<(), (PathBuf, io::Error)> {
    let absent = folder.ancestors().take_while(|path| !path.exists());
    let mut absent: Vec<&Path> = absent.collect();
    absent.reverse();
    for path in absent {
        let created = DirBuilder::new().mode(0o700).create(path);
        let given = created.and_then(|()| Folder::open(path)?.give_to(user));
        given.map_err(|error| (path.to_owned(), error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn directories_are_created_one_by_one_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().metadata().unwrap().uid();
        let inner = folder.path().join("a/b");
        create(&inner, own).unwrap();
        for path in [&inner, &folder.path().join("a")] {
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        }
        create(&inner, own).unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let (path, _) = create(&folder.path().join("file/c"), own).unwrap_err();
        assert_eq!(path, folder.path().join("file/c"));
    }

    /// By such an exchange, a file of root became that of a user.
    #[test]
    fn links_and_exchanged_directories_are_not_given_away() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().metadata().unwrap().uid();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("theirs")).unwrap();
        std::fs::write(at("theirs/file"), "").unwrap();
        symlink(at("theirs"), at("link")).unwrap();
        assert!(Folder::open(&at("link")).is_err());
        assert!(Folder::open(&at("theirs/file")).is_err());
        let exchanged = Folder::open(&at("theirs")).unwrap();
        assert!(exchanged.give_to(own).is_err());
    }

    #[test]
    fn file_is_written_to_the_directory_that_was_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["state", "other"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        std::fs::write(at("other/file"), "theirs").unwrap();
        let state = Folder::open(&at("state")).unwrap();
        symlink(at("other/file"), at("state/timer.json")).unwrap();
        std::fs::rename(at("state"), at("former")).unwrap();
        symlink(at("other"), at("state")).unwrap();
        state.write("timer.json", b"own").unwrap();
        assert_eq!(std::fs::read(at("former/timer.json")).unwrap(), b"own");
        assert_eq!(std::fs::read(at("other/file")).unwrap(), b"theirs");
        assert!(!at("other/timer.json").exists());
    }
}

//! The directories that kubexm shares with a program.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use tempfile::TempDir;

/// The file that a process locks while it uses the directory.
const LOCK: &str = "lock";
/// A directory without that file is one of a process that creates it now, until it is so old.
const OLD: Duration = Duration::from_secs(24 * 60 * 60);

/// A temporary directory that only this user can access, with a directory of inputs and directories for output.
///
/// The program can read the inputs and cannot change them. It can write only a directory of [`Workspace::scratch`].
/// kubexm writes nothing there, because the program could place a symbolic link there that points out of the
/// directory.
pub struct Workspace {
    folder: TempDir,
    /// Held until the directories are deleted.
    _lock: File,
}

impl Workspace {
    /// Creates the directories; the value deletes them when it is dropped.
    ///
    /// Before, it deletes directories with the same prefix that killed processes of this user have left: those that
    /// no process has locked. If the deletion fails, the directory stays.
    ///
    /// # Errors
    /// The directory for temporary files cannot be written.
    pub fn create(prefix: &str) -> io::Result<Self> {
        Self::create_in(&std::env::temp_dir(), prefix)
    }

    fn create_in(parent: &Path, prefix: &str) -> io::Result<Self> {
        remove_abandoned(parent, prefix);
        let workspace = loop {
            if let Some(workspace) = Self::locked(parent, prefix)? {
                break workspace;
            }
        };
        workspace.directory("")?;
        std::fs::create_dir(workspace.root())?;
        Ok(workspace)
    }

    /// Creates and locks a directory; `None` if another process has taken it for an abandoned one before it was locked.
    fn locked(parent: &Path, prefix: &str) -> io::Result<Option<Self>> {
        let folder = tempfile::Builder::new()
            .prefix(prefix)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(parent)?;
        let path = folder.path().join(LOCK);
        let lock = File::create_new(&path)?;
        // Some file systems do not support locks. There, the directory is not deleted either.
        let is_taken = matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) || !path.exists();
        Ok((!is_taken).then_some(Self {
            folder,
            _lock: lock,
        }))
    }

    /// Returns an empty directory, on which the sandbox mounts the root of the program.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// Returns the directory of inputs.
    pub fn inputs(&self) -> PathBuf {
        self.folder.path().join("inputs")
    }

    /// Writes an input that the program can read. Returns its path.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn put(&self, name: &str, content: &[u8]) -> io::Result<PathBuf> {
        let path = self.inputs().join(name);
        std::fs::write(&path, content)?;
        self.permit(&path, 0o644).map(|()| path)
    }

    /// Creates a directory of inputs. Returns its path.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn directory(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.inputs().join(name);
        std::fs::create_dir_all(&path)?;
        self.permit(&path, 0o755).map(|()| path)
    }

    /// Sets the mode of an input, independent of the umask. The program has another user.
    ///
    /// # Errors
    /// The input does not exist.
    pub fn permit(&self, path: &Path, mode: u32) -> io::Result<()> {
        std::fs::set_permissions(path, Permissions::from_mode(mode))
    }

    /// Creates an empty directory that a program can write. It is deleted with the workspace.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn scratch(&self) -> io::Result<PathBuf> {
        let folder = tempfile::Builder::new()
            .prefix("scratch-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(self.folder.path())?;
        Ok(folder.keep())
    }
}

fn remove_abandoned(parent: &Path, prefix: &str) {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries {
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            let _ = remove_if_abandoned(&entry.path());
        }
    }
}

fn remove_if_abandoned(folder: &Path) -> io::Result<()> {
    // Everyone can write a directory for temporary files: a link there could lead to any other directory.
    let about = folder.symlink_metadata()?;
    let is_ours = about.uid() == geteuid().as_raw() && about.mode() & 0o077 == 0;
    if !about.is_dir() || !is_ours {
        return Ok(());
    }
    // Held until the end, so that no process begins to use the directory.
    let _lock = match open_lock(&folder.join(LOCK)) {
        Ok(lock) if lock.try_lock().is_ok() => Some(lock),
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if about.modified()?.elapsed().unwrap_or_default() < OLD {
                return Ok(());
            }
            None
        }
        Err(error) => return Err(error),
    };
    // Deletes links, and does not follow them.
    std::fs::remove_dir_all(folder)
}

fn open_lock(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::SystemTime;

    use super::*;

    const PREFIX: &str = "kubexm-test-";

    /// Creates a directory as a killed process leaves it.
    fn left(parent: &Path, name: &str, mode: u32) -> PathBuf {
        let path = parent.join(format!("{PREFIX}{name}"));
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("snapshot.db"), "secret").unwrap();
        std::fs::write(path.join(LOCK), "").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn only_directories_without_a_holder_are_deleted() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path();
        let used = Workspace::create_in(parent, PREFIX).unwrap();
        let abandoned = left(parent, "abandoned", 0o700);
        let other = left(parent, "of-others", 0o755);
        let second = Workspace::create_in(parent, PREFIX).unwrap();
        assert!(!abandoned.exists());
        assert!(used.inputs().exists() && second.inputs().exists() && other.exists());
        let path = used.folder.path().to_owned();
        drop(used);
        assert!(!path.exists());
    }

    #[test]
    fn directory_without_a_lock_is_deleted_when_it_is_old() {
        let parent = tempfile::tempdir().unwrap();
        let folder = left(parent.path(), "x", 0o700);
        std::fs::remove_file(folder.join(LOCK)).unwrap();
        remove_abandoned(parent.path(), PREFIX);
        assert!(folder.exists());
        let old = SystemTime::now() - 2 * OLD;
        File::open(&folder).unwrap().set_modified(old).unwrap();
        remove_abandoned(parent.path(), PREFIX);
        assert!(!folder.exists());
    }

    #[test]
    fn links_are_not_followed() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path();
        let theirs = left(parent, "theirs", 0o700);
        let theirs_too = parent.join("other");
        std::fs::rename(&theirs, &theirs_too).unwrap();
        let link = parent.join(format!("{PREFIX}link"));
        symlink(&theirs_too, &link).unwrap();
        let abandoned = left(parent, "abandoned", 0o700);
        symlink(&theirs_too, abandoned.join("link")).unwrap();
        let locked_by_link = left(parent, "lock", 0o700);
        std::fs::remove_file(locked_by_link.join(LOCK)).unwrap();
        symlink(theirs_too.join(LOCK), locked_by_link.join(LOCK)).unwrap();
        remove_abandoned(parent, PREFIX);
        assert!(link.symlink_metadata().is_ok() && locked_by_link.exists());
        assert!(!abandoned.exists());
        assert!(theirs_too.join("snapshot.db").exists());
    }
}

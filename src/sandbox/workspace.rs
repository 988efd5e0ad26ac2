//! The directories that kubexm shares with a program.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A temporary directory that only this user can access, with a directory of inputs and directories for output.
///
/// The program can read the inputs and cannot change them. It can write only a directory of [`Workspace::scratch`].
/// kubexm writes nothing there, because the program could place a symbolic link there that points out of the
/// directory.
pub struct Workspace {
    folder: TempDir,
}

impl Workspace {
    /// Creates the directories; the value deletes them when it is dropped.
    ///
    /// # Errors
    /// The directory for temporary files cannot be written.
    pub fn create(prefix: &str) -> io::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix(prefix)
            .permissions(Permissions::from_mode(0o700))
            .tempdir()?;
        let workspace = Self { folder };
        workspace.directory("")?;
        std::fs::create_dir(workspace.root())?;
        Ok(workspace)
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

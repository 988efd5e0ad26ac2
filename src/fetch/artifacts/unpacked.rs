//! Programs that render artifacts: those of a bundle, or those of this machine.

use std::io;
use std::path::{Path, PathBuf};

use crate::FetchError;
use crate::error::wrong;
use kubexm_bundle::lock::LockedFile;
use kubexm_sandbox::Workspace;
use kubexm_types::Arch;

/// A program of a bundle, in a file of this machine.
pub struct Unpacked {
    pub(super) program: PathBuf,
    /// Deletes the program at the end.
    pub(super) _workspace: Workspace,
}

impl Unpacked {
    /// Returns the newest file of a component that runs on this machine.
    pub(super) fn newest<'a>(component: &str, files: &'a [LockedFile]) -> Option<&'a LockedFile> {
        let machine = Arch::of_this_machine().ok();
        let runs = |file: &&LockedFile| file.component == component && Some(file.arch) == machine;
        files.iter().filter(runs).max_by_key(|file| &file.version)
    }

    /// Creates the file of a program.
    ///
    /// # Errors
    /// Its content cannot be read, or a temporary file cannot be written.
    pub(super) fn create(
        component: &str,
        create: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<Self, FetchError> {
        let writing = || -> io::Result<Self> {
            let workspace = Workspace::create(&format!("kubexm-{component}-"))?;
            let program = workspace.inputs().join(component);
            create(&program)?;
            workspace.permit(&program, 0o755)?;
            Ok(Self {
                program,
                _workspace: workspace,
            })
        };
        writing().map_err(|error| wrong(&format!("unpacking {component}"), error.to_string()))
    }
}

/// Returns the program of a bundle, otherwise the one in `PATH`, without symbolic links.
pub(super) fn or_of_machine(unpacked: Option<&Unpacked>, name: &str) -> Option<PathBuf> {
    if let Some(unpacked) = unpacked {
        return Some(unpacked.program.clone());
    }
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
    places.find(|place| place.is_file())?.canonicalize().ok()
}

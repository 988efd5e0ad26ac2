//! Writes the file or the volumes of a bundle with temporary names first, so that only complete files get
//! their final names.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::{NamedTempFile, TempDir};

use crate::BundleError;
use crate::format::volumes::{list_path, listed_volumes, volume_path};
use crate::write::background_sync::SyncingFile;
use kubexm_types::{Digest, DigestWriter, remove_if_exists};

/// Prefix of the names of temporary files.
const PREFIX: &str = ".kubexm-bundle-";
const SUFFIX: &str = ".partial";
/// Minimum age of an abandoned file. A newer file may not be locked yet.
const FRESH: Duration = Duration::from_secs(10);

/// The file, or the volumes, of a bundle that is being written.
pub struct Output {
    name: PathBuf,
    /// `None` for a single file.
    volumes: Option<Volumes>,
    current: SyncingFile,
}

/// The volumes of a bundle. Those that are complete are closed: there can be more than a process may have open.
struct Volumes {
    /// Size of a volume in bytes.
    size: u64,
    folder: TempDir,
    /// The open directory, which is locked while a process writes.
    _lock: File,
    done: Vec<Digest>,
    /// The digest of the current volume, and how many bytes it has.
    hash: DigestWriter<io::Sink>,
    written: u64,
}

impl Volumes {
    fn create(name: &Path, size: u64) -> Result<Self, BundleError> {
        let parent = folder_of(name);
        let failed = |source| BundleError::Folder {
            path: parent.display().to_string(),
            source,
        };
        std::fs::create_dir_all(parent).map_err(failed)?;
        let mut builder = tempfile::Builder::new();
        let folder = builder.prefix(PREFIX).suffix(SUFFIX).tempdir_in(parent);
        let folder = folder.map_err(failed)?;
        let lock = File::open(folder.path()).map_err(failed)?;
        // Some file systems do not support locks.
        let _ = lock.try_lock();
        Ok(Self {
            size,
            folder,
            _lock: lock,
            done: Vec::new(),
            hash: DigestWriter::new(io::sink()),
            written: 0,
        })
    }

    /// Returns the path of a volume until it gets its final name.
    fn path(&self, number: usize) -> PathBuf {
        self.folder.path().join(number.to_string())
    }

    /// Closes a complete volume.
    fn add(&mut self, volume: NamedTempFile) -> io::Result<()> {
        volume.persist(self.path(self.done.len() + 1))?;
        let hash = std::mem::replace(&mut self.hash, DigestWriter::new(io::sink()));
        self.done.push(hash.finish().1);
        self.written = 0;
        Ok(())
    }
}

impl Output {
    /// Creates the directory and a temporary file in it.
    ///
    /// # Errors
    /// The directory is not writable.
    pub fn create(name: &Path, volume: Option<u64>) -> Result<Self, BundleError> {
        remove_abandoned(folder_of(name));
        let volumes = volume.map(|size| Volumes::create(name, size)).transpose()?;
        let folder = volumes.as_ref().map(|volumes| volumes.folder.path());
        let current = flushed_in(folder.unwrap_or(folder_of(name)), name)?;
        Ok(Self {
            name: name.to_owned(),
            volumes,
            current,
        })
    }

    /// Returns the directory of the bundle.
    pub fn folder(&self) -> &Path {
        folder_of(&self.name)
    }

    /// Returns the number of written bytes.
    pub fn written(&self) -> u64 {
        let done = self.volumes.as_ref();
        let done = done.map_or(0, |volumes| volumes.size * volumes.done.len() as u64);
        done + length(self.current.file())
    }

    /// Gives all files their final names. Removes the file or the volumes of an earlier bundle with this
    /// name, so that readers do not find them.
    ///
    /// # Errors
    /// The file system fails.
    pub fn persist(self) -> Result<(), BundleError> {
        let name = self.name;
        let last = self
            .current
            .finish()
            .map_err(|source| BundleError::io(&name, source))?;
        let (list, before) = (list_path(&name), listed_volumes(&name));
        if before > 0 {
            remove(&list)?;
        }
        let Some(mut volumes) = self.volumes else {
            persist(last, &name)?;
            return (1..=before).try_for_each(|number| remove(&volume_path(&name, number)));
        };
        volumes
            .add(last)
            .map_err(|source| BundleError::io(&name, source))?;
        let mut lines = String::new();
        for (number, digest) in (1..).zip(&volumes.done) {
            let path = volume_path(&name, number);
            let file_name = path.file_name().unwrap_or_default().to_string_lossy();
            // A write to a string does not fail.
            let _ = writeln!(lines, "{}  {file_name}", digest.hex());
            std::fs::rename(volumes.path(number), &path)
                .map_err(|source| BundleError::io(&path, source))?;
        }
        let count = volumes.done.len();
        (count + 1..=before).try_for_each(|number| remove(&volume_path(&name, number)))?;
        remove(&name)?;
        let mut partial = partial_in(folder_of(&name))?;
        let failed = |source| BundleError::io(&list, source);
        partial.write_all(lines.as_bytes()).map_err(failed)?;
        partial.as_file().sync_all().map_err(failed)?;
        persist(partial, &list)
    }
}

impl Write for Output {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let Some(volumes) = &mut self.volumes else {
            return self.current.write(buffer);
        };
        if volumes.written == volumes.size && !buffer.is_empty() {
            let next = flushed_in(volumes.folder.path(), &self.name).map_err(io::Error::other)?;
            let full = std::mem::replace(&mut self.current, next);
            volumes.add(full.finish()?)?;
        }
        let limit = (volumes.size - volumes.written).min(buffer.len() as u64) as usize;
        let count = self.current.write(&buffer[..limit])?;
        volumes.hash.write_all(&buffer[..count])?;
        volumes.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.current.flush()
    }
}

fn length(file: &File) -> u64 {
    file.metadata().map_or(0, |file| file.len())
}

fn folder_of(name: &Path) -> &Path {
    name.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

fn persist(partial: NamedTempFile, path: &Path) -> Result<(), BundleError> {
    partial
        .persist(path)
        .map(|_| ())
        .map_err(|error| BundleError::io(path, error.error))
}

fn remove(path: &Path) -> Result<(), BundleError> {
    remove_if_exists(path).map_err(|source| BundleError::io(path, source))
}

/// Removes the temporary files and directories of killed processes: those without a lock.
fn remove_abandoned(folder: &Path) {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let partial = files.filter(|file| {
        let name = file.file_name();
        let name = name.to_string_lossy();
        name.starts_with(PREFIX) && name.ends_with(SUFFIX)
    });
    for path in partial.map(|file| file.path()) {
        let remove = if path.is_dir() {
            std::fs::remove_dir_all
        } else {
            std::fs::remove_file
        };
        if is_abandoned(&path).unwrap_or(false)
            && let Err(error) = remove(&path)
        {
            tracing::debug!(%error, "cannot remove an abandoned file");
        }
    }
}

fn is_abandoned(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    let age = file.metadata()?.modified()?.elapsed().unwrap_or_default();
    Ok(age > FRESH && file.try_lock().is_ok())
}

fn flushed_in(folder: &Path, name: &Path) -> Result<SyncingFile, BundleError> {
    let partial = partial_in(folder)?;
    SyncingFile::new(partial).map_err(|source| BundleError::io(name, source))
}

/// Creates a temporary file in a directory. It is removed when it is dropped. It is locked while a process writes it.
fn partial_in(folder: &Path) -> Result<NamedTempFile, BundleError> {
    let partial = std::fs::create_dir_all(folder).and_then(|()| {
        let partial = tempfile::Builder::new()
            .prefix(PREFIX)
            .suffix(SUFFIX)
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .tempfile_in(folder)?;
        // Some file systems do not support locks.
        let _ = partial.as_file().try_lock();
        Ok(partial)
    });
    partial.map_err(|source| BundleError::Folder {
        path: folder.display().to_string(),
        source,
    })
}

//! Writes the file or the volumes of a bundle with temporary names first, so that only complete files get
//! their final names.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::NamedTempFile;

use crate::BundleError;
use crate::format::volumes::{list_path, listed_volumes, volume_path};
use crate::write::background_sync::SyncingFile;
use kubexm_types::{Digest, DigestWriter};

/// Prefix of the names of temporary files.
const PREFIX: &str = ".kubexm-bundle-";
const SUFFIX: &str = ".partial";
/// Minimum age of an abandoned file. A newer file may not be locked yet.
const FRESH: Duration = Duration::from_secs(10);

/// The file, or the volumes, of a bundle that is being written.
pub struct Output {
    name: PathBuf,
    /// Size of a volume in bytes; `None` for a single file.
    volume: Option<u64>,
    done: Vec<(NamedTempFile, Digest)>,
    current: SyncingFile,
    hash: DigestWriter<io::Sink>,
    written: u64,
}

impl Output {
    /// Creates the directory and a temporary file in it.
    ///
    /// # Errors
    /// The directory is not writable.
    pub fn create(name: &Path, volume: Option<u64>) -> Result<Self, BundleError> {
        remove_abandoned(folder_of(name));
        Ok(Self {
            name: name.to_owned(),
            volume,
            done: Vec::new(),
            current: flushed_beside(name)?,
            hash: DigestWriter::new(io::sink()),
            written: 0,
        })
    }

    /// Returns the directory of the bundle.
    pub fn folder(&self) -> &Path {
        folder_of(&self.name)
    }

    /// Returns the number of written bytes.
    pub fn written(&self) -> u64 {
        let done = self.done.iter().map(|(file, _)| length(file.as_file()));
        done.sum::<u64>() + length(self.current.file())
    }

    /// Gives all files their final names. Removes the file or the volumes of an earlier bundle with this
    /// name, so that readers do not find them.
    ///
    /// # Errors
    /// The file system fails.
    pub fn persist(mut self) -> Result<(), BundleError> {
        let name = self.name;
        let last = self
            .current
            .finish()
            .map_err(|source| BundleError::io(&name, source))?;
        let (list, before) = (list_path(&name), listed_volumes(&name));
        if before > 0 {
            remove(&list)?;
        }
        if self.volume.is_none() {
            persist(last, &name)?;
            return (1..=before).try_for_each(|number| remove(&volume_path(&name, number)));
        }
        self.done.push((last, self.hash.finish().1));
        let mut lines = String::new();
        let count = self.done.len();
        for (number, (volume, digest)) in (1..).zip(self.done) {
            let path = volume_path(&name, number);
            let file_name = path.file_name().unwrap_or_default().to_string_lossy();
            // A write to a string does not fail.
            let _ = writeln!(lines, "{}  {file_name}", digest.hex());
            persist(volume, &path)?;
        }
        (count + 1..=before).try_for_each(|number| remove(&volume_path(&name, number)))?;
        remove(&name)?;
        let mut partial = partial_beside(&name)?;
        let failed = |source| BundleError::io(&list, source);
        partial.write_all(lines.as_bytes()).map_err(failed)?;
        partial.as_file().sync_all().map_err(failed)?;
        persist(partial, &list)
    }

    fn next_volume(&mut self) -> io::Result<()> {
        let next = flushed_beside(&self.name).map_err(io::Error::other)?;
        let hash = std::mem::replace(&mut self.hash, DigestWriter::new(io::sink()));
        let full = std::mem::replace(&mut self.current, next);
        self.done.push((full.finish()?, hash.finish().1));
        self.written = 0;
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let Some(volume) = self.volume else {
            return self.current.write(buffer);
        };
        if self.written == volume && !buffer.is_empty() {
            self.next_volume()?;
        }
        let limit = (volume - self.written).min(buffer.len() as u64) as usize;
        let count = self.current.write(&buffer[..limit])?;
        self.hash.write_all(&buffer[..count])?;
        self.written += count as u64;
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
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(BundleError::io(path, source))
        }
        _ => Ok(()),
    }
}

/// Removes the temporary files of killed processes: those without a lock.
fn remove_abandoned(folder: &Path) {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let partial = files.filter(|file| {
        let name = file.file_name();
        let name = name.to_string_lossy();
        name.starts_with(PREFIX) && name.ends_with(SUFFIX)
    });
    for path in partial.map(|file| file.path()) {
        if is_abandoned(&path).unwrap_or(false)
            && let Err(error) = std::fs::remove_file(&path)
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

fn flushed_beside(name: &Path) -> Result<SyncingFile, BundleError> {
    let partial = partial_beside(name)?;
    SyncingFile::new(partial).map_err(|source| BundleError::io(name, source))
}

/// Creates a temporary file in the directory of a bundle. It is removed when it is dropped. It is locked
/// while a process writes it.
fn partial_beside(name: &Path) -> Result<NamedTempFile, BundleError> {
    let folder = folder_of(name);
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

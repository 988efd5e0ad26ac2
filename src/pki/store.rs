//! The directory of certificates and keys on the controller.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::{Pair, PkiError};
use kubexm_types::write_atomic;

/// A directory of the controller with CAs, certificates and keys, all with mode 0600.
#[derive(Debug, Clone)]
pub struct CertificateStore {
    dir: PathBuf,
    read_only: bool,
}

impl CertificateStore {
    /// Opens a directory. The first write creates it.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            read_only: false,
        }
    }

    /// Opens a directory without the permission to write. New keys and certificates exist in memory only.
    pub fn read_only(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            read_only: true,
        }
    }

    /// Returns the store of a subdirectory.
    #[must_use]
    pub fn subdirectory(&self, name: &str) -> Self {
        Self {
            dir: self.dir.join(name),
            read_only: self.read_only,
        }
    }

    /// Returns whether the store may not be written.
    pub(super) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Returns the path of a file.
    pub fn path(&self, file: &str) -> PathBuf {
        self.dir.join(file)
    }

    /// Reads a certificate and its key; `None` if one of the files does not exist.
    pub(super) fn load(&self, name: &str) -> Result<Option<Pair>, PkiError> {
        let certificate = self.read(&format!("{name}.crt"))?;
        let key = self.read(&format!("{name}.key"))?;
        Ok(certificate
            .zip(key)
            .map(|(certificate, key)| Pair { certificate, key }))
    }

    /// Writes a certificate and its key.
    pub(super) fn save(&self, name: &str, pair: &Pair) -> Result<(), PkiError> {
        // The certificate is written last, so that it never exists without its key.
        self.write(&format!("{name}.key"), &pair.key)?;
        self.write(&format!("{name}.crt"), &pair.certificate)
    }

    /// Reads a file; `None` if it does not exist.
    pub(super) fn read(&self, file: &str) -> Result<Option<String>, PkiError> {
        let path = self.dir.join(file);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(failed("read", &path, source)),
        }
    }

    /// Writes a file, unless the store is read-only.
    pub(super) fn write(&self, file: &str, text: &str) -> Result<(), PkiError> {
        if self.read_only {
            return Ok(());
        }
        let mut builder = std::fs::DirBuilder::new();
        let created = builder.recursive(true).mode(0o700).create(&self.dir);
        created.map_err(|source| failed("create", &self.dir, source))?;
        let path = self.dir.join(file);
        write_atomic(&path, text.as_bytes(), 0o600).map_err(|source| failed("write", &path, source))
    }
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> PkiError {
    PkiError::Io {
        action,
        path: path.display().to_string(),
        source,
    }
}

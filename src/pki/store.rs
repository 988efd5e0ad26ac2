//! The directory of certificates and keys on the controller.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::encryption::KeyIdentity;
use crate::error::PkiError;
use crate::pair::Pair;
use kubexm_config::cluster::Validity;
use kubexm_types::{remove_if_exists, write_atomic};
use time::OffsetDateTime;

/// A directory of the controller with CAs, certificates and keys, all with mode 0600.
#[derive(Clone)]
pub struct CertificateStore {
    dir: PathBuf,
    /// The directory with the key pair of archives: that of the store of which this one is a subdirectory, or the own one.
    root: PathBuf,
    read_only: bool,
    /// Encrypts and decrypts the keys of CAs.
    identity: Option<KeyIdentity>,
    /// What opens other secrets, after it was read. A passphrase takes a second for it.
    pub(super) opener: Arc<OnceLock<KeyIdentity>>,
    /// How long new certificates are valid.
    validity: Validity,
    /// Which certificates are issued again although they are valid.
    renewal: Option<Renewal>,
}

/// A renewal of certificates that are still valid.
#[derive(Clone)]
struct Renewal {
    /// The time of its beginning. Certificates that were issued later belong to it.
    since: OffsetDateTime,
    /// Certificates that stay as they are, unless they are about to expire.
    kept: BTreeSet<String>,
}

/// The key of a CA in a store.
pub(super) enum StoredKey {
    /// The key, PEM.
    Readable(String),
    /// The key is encrypted, and the store has no identity.
    Encrypted,
    /// There is no key.
    Missing,
}

impl CertificateStore {
    /// Opens a directory. The first write creates it.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        Self {
            root: dir.clone(),
            dir,
            read_only: false,
            identity: None,
            opener: Arc::default(),
            validity: Validity::default(),
            renewal: None,
        }
    }

    /// Encrypts the keys of CAs with an identity, and other secrets with the key pair of archives: those that exist and those
    /// that are created.
    #[must_use]
    pub fn encrypted(self, identity: Option<KeyIdentity>) -> Self {
        Self {
            identity,
            opener: Arc::default(),
            ..self
        }
    }

    /// Sets how long new certificates are valid. The default is that of kubeadm.
    #[must_use]
    pub fn valid_for(self, validity: Validity) -> Self {
        Self { validity, ..self }
    }

    /// Issues again what was issued before `since`, apart from the certificates with the names in `kept`.
    #[must_use]
    pub fn renewing(self, since: OffsetDateTime, kept: BTreeSet<String>) -> Self {
        let renewal = Some(Renewal { since, kept });
        Self { renewal, ..self }
    }

    /// Returns whether a renewal issues a certificate of this name and of this time again.
    pub(super) fn renews(&self, name: &str, issued: OffsetDateTime) -> bool {
        let renewal = self.renewal.as_ref();
        renewal.is_some_and(|renewal| issued < renewal.since && !renewal.kept.contains(name))
    }

    /// Returns how long new certificates are valid.
    pub(super) fn validity(&self) -> Validity {
        self.validity
    }

    /// Opens a directory without the permission to write. New keys and certificates exist in memory only.
    pub fn read_only(dir: impl Into<PathBuf>) -> Self {
        Self {
            read_only: true,
            ..Self::new(dir)
        }
    }

    /// Returns the store of a subdirectory.
    #[must_use]
    pub fn subdirectory(&self, name: &str) -> Self {
        Self {
            dir: self.dir.join(name),
            ..self.clone()
        }
    }

    /// Returns the store of the directory with the key pair of archives.
    pub(super) fn root(&self) -> Self {
        Self {
            dir: self.root.clone(),
            ..self.clone()
        }
    }

    /// Returns whether the store encrypts secrets that it writes.
    pub(super) fn encrypts(&self) -> bool {
        self.identity.is_some() && !self.read_only
    }

    /// Returns whether the store may not be written.
    pub(super) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Returns the path of a file.
    pub fn path(&self, file: &str) -> PathBuf {
        self.dir.join(file)
    }

    /// Reads the key of the CA `name`, and encrypts it if it is not encrypted yet and the store has an identity.
    pub(super) fn read_ca_key(&self, name: &str) -> Result<StoredKey, PkiError> {
        if let Some(key) = self.read(&format!("{name}.key"))? {
            if self.identity.is_some() && !self.read_only {
                self.write_ca_key(name, &key)?;
            }
            return Ok(StoredKey::Readable(key));
        }
        self.read_encrypted_key(name)
    }

    /// Reads the encrypted key of the CA `name`, and decrypts it if the store has an identity.
    fn read_encrypted_key(&self, name: &str) -> Result<StoredKey, PkiError> {
        let path = self.path(&format!("{name}.key.age"));
        let encrypted = match std::fs::read(&path) {
            Ok(encrypted) => encrypted,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(StoredKey::Missing),
            Err(source) => return Err(failed("read", &path, source)),
        };
        match &self.identity {
            Some(identity) => identity.decrypt(name, &encrypted).map(StoredKey::Readable),
            None => Ok(StoredKey::Encrypted),
        }
    }

    /// Decrypts every encrypted key of a CA in the directory.
    ///
    /// # Errors
    /// The identity of the store does not open a key, or there is none.
    pub fn opens_keys(&self) -> Result<(), PkiError> {
        for name in self.encrypted_keys()? {
            let path = self.path(&format!("{name}.key.age"));
            let encrypted = std::fs::read(&path).map_err(|source| failed("read", &path, source))?;
            self.opens_key(&path, &encrypted)?;
        }
        Ok(())
    }

    /// Decrypts an encrypted key of a CA, which need not be in the directory. `path` is for the error.
    ///
    /// # Errors
    /// The identity of the store does not open the key, or there is none.
    pub fn opens_key(&self, path: &Path, encrypted: &[u8]) -> Result<(), PkiError> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        match &self.identity {
            Some(identity) => identity.decrypt(&name, encrypted).map(drop),
            None => Err(PkiError::EncryptedKey {
                purpose: "open the keys of CAs".to_owned(),
                path: path.display().to_string(),
            }),
        }
    }

    /// Returns the names of the encrypted keys in the directory; none if it does not exist.
    pub(super) fn encrypted_keys(&self) -> Result<Vec<String>, PkiError> {
        let names = self.names()?.into_iter();
        let keys = names.filter_map(|file| file.strip_suffix(".key.age").map(str::to_owned));
        Ok(keys.collect())
    }

    /// Returns the names of files and directories in the directory; none if it does not exist.
    pub(super) fn names(&self) -> Result<Vec<String>, PkiError> {
        let entries = match std::fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(failed("read", &self.dir, source)),
        };
        let name = |entry: io::Result<std::fs::DirEntry>| {
            let entry = entry.map_err(|source| failed("read", &self.dir, source))?;
            Ok(entry.file_name().to_string_lossy().into_owned())
        };
        entries.map(name).collect()
    }

    /// Returns the key of the CA `name`; `None` if the store does not have it. Secret.
    ///
    /// # Errors
    /// The key is encrypted and the store has no identity.
    pub(super) fn ca_key(&self, name: &str) -> Result<Option<String>, PkiError> {
        match self.read_ca_key(name)? {
            StoredKey::Readable(key) => Ok(Some(key)),
            StoredKey::Missing => Ok(None),
            StoredKey::Encrypted => Err(PkiError::EncryptedKey {
                purpose: "write the key of the CA to the hosts".to_owned(),
                path: self.path(&format!("{name}.key.age")).display().to_string(),
            }),
        }
    }

    /// Writes the key of the CA `name`, encrypted if the store has an identity. A key in clear text is removed
    /// when the encrypted one is on disk.
    pub(super) fn write_ca_key(&self, name: &str, key: &str) -> Result<(), PkiError> {
        if self.read_only {
            return Ok(());
        }
        let Some(identity) = &self.identity else {
            return self.write(&format!("{name}.key"), key);
        };
        let encrypted = identity.encrypt(name, key)?;
        self.write_bytes(&format!("{name}.key.age"), &encrypted)?;
        self.remove(&format!("{name}.key"))
    }

    /// Removes a file, unless the store is read-only.
    pub(super) fn remove(&self, file: &str) -> Result<(), PkiError> {
        if self.read_only {
            return Ok(());
        }
        let path = self.path(file);
        remove_if_exists(&path).map_err(|error| failed("remove", &path, error))
    }

    /// Reads a certificate and its key; `None` if one of the files does not exist, or if it is not known which of two keys is that of
    /// the certificate.
    pub(super) fn load(&self, name: &str) -> Result<Option<Pair>, PkiError> {
        let certificate = self.read(&format!("{name}.crt"))?;
        let key = match self.read_secret(&format!("{name}.key")) {
            Err(PkiError::TwoKeys { .. }) => None,
            read => read?,
        };
        Ok(certificate
            .zip(key)
            .map(|(certificate, key)| Pair { certificate, key }))
    }

    /// Writes a certificate and its key.
    pub(super) fn save(&self, name: &str, pair: &Pair) -> Result<(), PkiError> {
        // The certificate is written last, so that it never exists without its key.
        self.write_secret(&format!("{name}.key"), &pair.key)?;
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
        self.write_bytes(file, text.as_bytes())
    }

    pub(super) fn write_bytes(&self, file: &str, content: &[u8]) -> Result<(), PkiError> {
        if self.read_only {
            return Ok(());
        }
        let mut builder = std::fs::DirBuilder::new();
        let created = builder.recursive(true).mode(0o700).create(&self.dir);
        created.map_err(|source| failed("create", &self.dir, source))?;
        let path = self.dir.join(file);
        write_atomic(&path, content, 0o600).map_err(|source| failed("write", &path, source))
    }
}

pub(crate) fn failed(action: &'static str, path: &Path, source: io::Error) -> PkiError {
    PkiError::Io {
        action,
        path: path.display().to_string(),
        source,
    }
}

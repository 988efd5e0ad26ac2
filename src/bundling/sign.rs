//! `bundle sign` and `bundle keygen`: minisign keys and signatures.

use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::{VolumeSize, WrittenBundle};
use kubexm_bundle::signature::new_keys;
use kubexm_bundle::write::rewrite;
use kubexm_bundle::{CreationTime, Revision};
use kubexm_session::{BundleAccess, CommandError, FileError, Stop, background};
use kubexm_types::event::Events;
use kubexm_types::{Message, PublicKey};

pub use kubexm_bundle::{Sequence, Signer};

/// Which bundle to sign.
pub struct SignOptions {
    /// The bundle.
    pub bundle: PathBuf,
    /// How it is opened.
    pub access: BundleAccess,
    /// The key.
    pub signer: Signer,
    /// The path of the signed bundle; `None` to replace the bundle.
    pub out: Option<PathBuf>,
    /// The size of volumes; `None` for a single file.
    pub split: Option<VolumeSize>,
}

/// A signed bundle.
#[derive(Debug, Clone)]
pub struct SignReport {
    /// The bundle.
    pub written: WrittenBundle,
    /// The public key that verifies the signature.
    pub public_key: PublicKey,
    /// The creation time and the sequence number that the signature states.
    pub revision: Revision,
}

/// A new pair of keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyFiles {
    /// The secret key, readable only by its owner.
    pub secret: PathBuf,
    /// The public key.
    pub public: PathBuf,
}

/// Reads a minisign secret key. `password` is called only if the key is encrypted.
///
/// Signatures of the key state `SOURCE_DATE_EPOCH` or the current time as creation time. Without a sequence
/// number they state the seconds from 1970 to the creation time.
///
/// # Errors
/// The file is not a minisign secret key, the password is wrong, or `SOURCE_DATE_EPOCH` is not a time.
pub fn load_key(
    path: &Path,
    sequence: Option<Sequence>,
    password: impl FnOnce() -> Result<String, Message>,
) -> Result<Signer, CommandError> {
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
    let created = CreationTime::of_source_date_epoch(epoch.as_deref());
    let created = created.map_err(CommandError::configuration)?;
    let revision = Revision::new(created.unwrap_or_else(CreationTime::now), sequence);
    let signer = Signer::load(path, revision, password);
    signer.map_err(|error| CommandError::configuration(Message::from(&error)))
}

/// Signs a bundle.
///
/// # Errors
/// The bundle cannot be read or written.
pub async fn sign(
    options: SignOptions,
    events: &Events,
    stop: &Stop,
) -> Result<SignReport, CommandError> {
    let bundle = options.access.open(&options.bundle)?;
    let (signer, split) = (options.signer, options.split);
    let revision = signer.revision();
    let public_key = signer.public_key().map_err(CommandError::defect)?;
    if options.out.is_none() && split.is_none() && bundle.volume_count().is_some() {
        return Err(
            CommandError::configuration("the bundle consists of volumes")
                .hint("give --split SIZE for new volumes, or --out FILE"),
        );
    }
    let path = options.out.unwrap_or_else(|| bundle.path().to_owned());
    let (events, stop) = (events.clone(), stop.clone());
    let written = background::run(move || {
        let stop = || stop.is_cancelled();
        let volume = split.map(VolumeSize::bytes);
        let written = rewrite::sign(&bundle, &signer, &path, volume, &events, &stop)?;
        Ok(WrittenBundle::announce(&events, &path, &written, split))
    });
    Ok(SignReport {
        written: written.await?,
        public_key,
        revision,
    })
}

/// Writes `<name>.key` and `<name>.pub`. Existing files are never replaced.
///
/// # Errors
/// A file exists or cannot be written.
pub fn keygen(name: &Path, password: Option<String>) -> Result<KeyFiles, CommandError> {
    let keys = new_keys(password).map_err(CommandError::defect)?;
    let named = |suffix: &str| {
        let mut name = name.to_owned().into_os_string();
        name.push(suffix);
        PathBuf::from(name)
    };
    let files = KeyFiles {
        secret: named(".key"),
        public: named(".pub"),
    };
    // Without this check, an existing public key would leave a new secret key behind.
    for path in [&files.secret, &files.public] {
        if path.exists() {
            return Err(exists(path).into());
        }
    }
    create_new(&files.secret, &keys.secret, 0o600)?;
    create_new(&files.public, &keys.public, 0o644)?;
    Ok(files)
}

fn create_new(path: &Path, text: &str, mode: u32) -> Result<(), CommandError> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(path),
        _ => FileError::new("write", path, error),
    };
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .map_err(failed)?;
    file.set_permissions(std::fs::Permissions::from_mode(mode))
        .and_then(|()| file.write_all(text.as_bytes()))
        .and_then(|()| file.sync_all())
        .map_err(failed)?;
    Ok(())
}

fn exists(path: &Path) -> FileError {
    let error = FileError::new(
        "write",
        path,
        "the file exists, and keys are never replaced",
    );
    error.hint("choose another name, or move the old key away")
}

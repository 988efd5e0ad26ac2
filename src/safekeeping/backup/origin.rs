//! Who made a backup: its manifest is signed with a key of the state directory. A public key of age, the ID of the cluster and
//! access to the storage are enough to write a file that decrypts.

use std::io::Cursor;
use std::path::Path;

use minisign::SecretKeyBox;

use kubexm_bundle::signature::{NewKeys, new_keys};
use kubexm_session::{CommandError, FileError};
use kubexm_types::public_key::BadSignature;
use kubexm_types::{PublicKey, write_atomic};

/// The file of the signature in a backup. It follows the manifest.
pub(super) const SIGNATURE: &str = "manifest.json.minisig";
/// The secret key in the state directory. Backups have it, too, so that a restored state directory goes on with it.
const SECRET: &str = "backup-signing.key";
/// The public key in the state directory.
pub const PUBLIC: &str = "backup-signing.pub";

/// Who made a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A run with this state directory.
    Own,
    /// Nothing shows who. The reason, as the rest of a sentence about the backup.
    Unknown(String),
}

/// What a backup has to show who made it.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// The bytes of the manifest.
    pub(super) manifest: Vec<u8>,
    /// `None` in backups of earlier versions.
    pub(super) signature: Option<String>,
}

impl Evidence {
    /// Returns who made the backup, by the public key of the state directory.
    ///
    /// # Errors
    /// The key is damaged, or the signature is one of this key and of another manifest.
    pub fn origin(&self, backup: &Path, path: &Path) -> Result<Origin, CommandError> {
        let Some(signature) = &self.signature else {
            let why =
                "it has no signature: an earlier version of kubexm wrote it, or another program";
            return Ok(Origin::Unknown(why.to_owned()));
        };
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let why = format!(
                    "{} does not exist, with which kubexm verifies it",
                    path.display()
                );
                return Ok(Origin::Unknown(why));
            }
            read => read.map_err(|error| FileError::io("read", path, &error))?,
        };
        let key = PublicKey::parse(&text).map_err(|error| FileError::new("read", path, error))?;
        match key.verify(&self.manifest, signature) {
            Ok(_) => Ok(Origin::Own),
            Err(BadSignature::OtherKey) => Ok(Origin::Unknown(format!(
                "it is signed with another key than {}",
                path.display()
            ))),
            Err(BadSignature::Unreadable | BadSignature::Wrong) => {
                let error = FileError::new("use the backup", backup, "its signature is wrong");
                Err(error
                    .hint("someone has changed it: use another backup")
                    .into())
            }
        }
    }
}

/// The secret key of a state directory.
pub(super) struct SigningKey(minisign::SecretKey);

impl SigningKey {
    /// Reads the key of a state directory, or creates it.
    ///
    /// # Errors
    /// The key is damaged or cannot be written.
    pub(super) fn of(state: &Path) -> Result<Self, CommandError> {
        let path = state.join(SECRET);
        let damaged = |error: minisign::PError| {
            let error = FileError::new("read the key that signs backups", &path, error);
            error.hint(
                "restore the file from a backup, or remove it: kubexm then creates another one",
            )
        };
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => create(state)?,
            read => read.map_err(|error| FileError::io("read", &path, &error))?,
        };
        let key = SecretKeyBox::from_string(&text).map_err(damaged)?;
        Ok(Self(key.into_unencrypted_secret_key().map_err(damaged)?))
    }

    /// Returns the signature of a manifest.
    ///
    /// # Errors
    /// The key is damaged.
    pub(super) fn sign(&self, manifest: &[u8]) -> Result<String, CommandError> {
        let signed = minisign::sign(
            None,
            &self.0,
            Cursor::new(manifest),
            Some("backup of kubexm"),
            Some("signature of manifest.json"),
        );
        let signed = signed.map(minisign::SignatureBox::into_string);
        signed.map_err(|error| CommandError::defect(format!("cannot sign a backup: {error}")))
    }
}

/// Creates the keys of a state directory. Returns the text of the secret one, which comes last: without it, both are created again.
fn create(state: &Path) -> Result<String, CommandError> {
    let NewKeys { secret, public } = new_keys(None)
        .map_err(|error| CommandError::defect(format!("cannot create a key: {error}")))?;
    for (name, text) in [(PUBLIC, &public), (SECRET, &secret)] {
        let path = state.join(name);
        write_atomic(&path, text.as_bytes(), 0o600)
            .map_err(|error| FileError::io("write", &path, &error))?;
    }
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The storage of backups and the public key of age were enough.
    #[test]
    fn only_a_run_with_the_state_directory_makes_a_backup_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let (own, other) = (folder.path().join("own"), folder.path().join("other"));
        for state in [&own, &other] {
            std::fs::create_dir(state).unwrap();
        }
        let backup = folder.path().join("backup");
        let made_with = |state: &Path| Evidence {
            manifest: b"{}".to_vec(),
            signature: Some(SigningKey::of(state).unwrap().sign(b"{}").unwrap()),
        };
        let evidence = made_with(&own);
        let mut changed = evidence.clone();
        changed.manifest = b"{ }".to_vec();
        assert_eq!(
            evidence.origin(&backup, &own.join(PUBLIC)).unwrap(),
            Origin::Own
        );
        // The key stays.
        assert_eq!(
            made_with(&own).origin(&backup, &own.join(PUBLIC)).unwrap(),
            Origin::Own
        );
        let refused = changed
            .origin(&backup, &own.join(PUBLIC))
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("its signature is wrong\nhint: "),
            "{refused}"
        );
        let unsigned = Evidence::default();
        let none = folder.path().join("none");
        for (evidence, state, expected) in [
            (&unsigned, &own, "it has no signature"),
            (&made_with(&other), &own, "signed with another key"),
            (&evidence, &none, "backup-signing.pub does not exist"),
        ] {
            let Origin::Unknown(why) = evidence.origin(&backup, &state.join(PUBLIC)).unwrap()
            else {
                panic!("{expected}")
            };
            assert!(why.contains(expected), "{why}");
        }
        // With the public key alone, a lost state directory knows its backups.
        std::fs::create_dir(&none).unwrap();
        std::fs::copy(own.join(PUBLIC), none.join(PUBLIC)).unwrap();
        assert_eq!(
            evidence.origin(&backup, &none.join(PUBLIC)).unwrap(),
            Origin::Own
        );
    }
}

//! Who a bundle comes from: a minisign signature over `index.json`, which names everything below it
//! by digest (<https://jedisct1.github.io/minisign/>).

use std::io::Cursor;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use minisign::{KeyPair, SecretKey, SecretKeyBox};

use kubexm_types::public_key::BadSignature;
use kubexm_types::{Digest, PublicKey};

/// What a secret key without a password has in place of how its password is used.
const NO_PASSWORD: [u8; 2] = [0, 0];

/// A secret key that is ready to sign.
pub struct Signer {
    key: SecretKey,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Signer(hidden)")
    }
}

/// Why there is no signer.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file is no secret key.
    #[error(
        "{path}: cannot be taken as a minisign secret key: {reason}\n`kubexm bundle keygen` or `minisign -G` makes one."
    )]
    Unreadable {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// The key wants a password.
    #[error("{path}: the key wants a password: {reason}")]
    Password {
        /// The file.
        path: String,
        /// Why there is none that fits.
        reason: String,
    },
}

impl Signer {
    /// Reads a secret key's file. Where the key is encrypted, `password` is asked for.
    ///
    /// # Errors
    /// It cannot be read, is no such key, or the password does not open it.
    pub fn load(
        path: &Path,
        password: impl FnOnce() -> Result<String, String>,
    ) -> Result<Self, KeyError> {
        let unreadable = |reason: String| KeyError::Unreadable {
            path: path.display().to_string(),
            reason,
        };
        let text = std::fs::read_to_string(path).map_err(|e| unreadable(e.to_string()))?;
        let line = text.lines().nth(1).unwrap_or_default().trim();
        let bytes = STANDARD
            .decode(line)
            .map_err(|_| unreadable("its second line is no base64".to_owned()))?;
        if bytes.get(2..4) == Some(&NO_PASSWORD) {
            // Read as it is: `minisign -W` writes such keys without the checksum that others have.
            let key = SecretKey::from_bytes(&bytes).map_err(|e| unreadable(e.to_string()))?;
            return Ok(Self { key });
        }
        let failed = |reason: String| KeyError::Password {
            path: path.display().to_string(),
            reason,
        };
        let password = password().map_err(failed)?;
        let key = SecretKeyBox::from_string(&text)
            .map_err(|error| unreadable(error.to_string()))?
            .into_secret_key(Some(password))
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self { key })
    }

    /// The text of `index.json.minisig`. Its trusted comment names the bundle and its lock.
    pub(super) fn sign(&self, index: &[u8], name: &str, lock: &Digest) -> Result<String, String> {
        let comment = format!("kubexm bundle {name}, lock {lock}");
        minisign::sign(
            None,
            &self.key,
            Cursor::new(index),
            Some(&comment),
            Some("signature of index.json"),
        )
        .map(minisign::SignatureBox::into_string)
        .map_err(|error| format!("cannot sign: {error}"))
    }

    /// The public half, by which others trust what it signs.
    ///
    /// # Errors
    /// The key contradicts itself.
    pub fn public_key(&self) -> Result<PublicKey, String> {
        let key = minisign::PublicKey::from_secret_key(&self.key).map_err(|e| e.to_string())?;
        PublicKey::parse(&key.to_base64()).map_err(|error| error.to_string())
    }
}

/// The two files of a new pair of keys.
pub struct NewKeys {
    /// To be kept by whoever signs.
    pub secret: String,
    /// To be given to whoever trusts.
    pub public: String,
}

/// Makes a pair of keys, as `minisign -G` does; encrypted where there is a password.
///
/// # Errors
/// There is no randomness to be had.
pub fn new_keys(password: Option<String>) -> Result<NewKeys, String> {
    let pair = match password {
        Some(password) => KeyPair::generate_encrypted_keypair(Some(password)),
        None => KeyPair::generate_unencrypted_keypair(),
    };
    let text = |pair: KeyPair| -> minisign::Result<NewKeys> {
        Ok(NewKeys {
            public: pair.pk.to_box()?.into_string(),
            secret: pair.sk.to_box(None)?.into_string(),
        })
    };
    pair.and_then(text).map_err(|error| error.to_string())
}

/// Whether one of the keys made the signature of an `index.json`.
///
/// # Errors
/// Why not, as the rest of a sentence about the bundle.
pub fn check(index: &[u8], signature: Option<&str>, trust: &[PublicKey]) -> Result<(), String> {
    let Some(signature) = signature else {
        return Err(
            "is not signed, and only signed bundles are trusted here; do not use it".into(),
        );
    };
    let mut why = BadSignature::OtherKey;
    for key in trust {
        match key.verify(index, signature) {
            Ok(()) => return Ok(()),
            Err(BadSignature::OtherKey) => {}
            Err(other) => why = other,
        }
    }
    Err(match why {
        BadSignature::OtherKey => format!(
            "is signed by another key ({}) than those that are trusted here; do not use it",
            key_id(signature).unwrap_or_else(|| "unknown".to_owned())
        ),
        BadSignature::Unreadable => "has a signature that is none; do not use it".to_owned(),
        BadSignature::Wrong => {
            "its signature does not hold: index or signature were changed; do not use it".to_owned()
        }
    })
}

/// The number of the key that made a signature, as minisign shows it.
pub fn key_id(signature: &str) -> Option<String> {
    let bytes = STANDARD.decode(signature.lines().nth(1)?.trim()).ok()?;
    let id: [u8; 8] = bytes.get(2..10)?.try_into().ok()?;
    Some(format!("{:016X}", u64::from_le_bytes(id)))
}

//! Minisign signatures of bundles (<https://jedisct1.github.io/minisign/>). The signature covers
//! `index.json`, which names all other content by digest, and the trusted comment.

use std::io::Cursor;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use minisign::{KeyPair, SecretKey, SecretKeyBox};

use crate::statement::{Revision, Statement};
use kubexm_types::public_key::BadSignature;
use kubexm_types::{Digest, Message, PublicKey};

/// The key derivation algorithm of a secret key without a password.
const NO_PASSWORD: [u8; 2] = [0, 0];

/// A decrypted secret key, and the revision that its signatures state.
pub struct Signer {
    key: SecretKey,
    revision: Revision,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Signer(hidden)")
    }
}

/// Why a secret key cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[error("{}", Message::from(self))]
pub enum KeyError {
    /// The file is not a secret key.
    Unreadable {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// The file is a public key.
    Public {
        /// The file.
        path: String,
    },
    /// The password is missing or wrong.
    Password {
        /// The file.
        path: String,
        /// Why the password cannot be read, or that it is wrong.
        reason: Message,
    },
}

impl From<&KeyError> for Message {
    fn from(error: &KeyError) -> Self {
        match error {
            KeyError::Unreadable { path, reason } => Self::new(format!(
                "{path}: cannot read the minisign secret key: {reason}"
            ))
            .hint("create one with `kubexm bundle keygen` or `minisign -G`"),
            KeyError::Public { path } => Self::new(format!(
                "{path}: this is a public key, but a signature needs the secret key"
            ))
            .hint("give the .key file that belongs to it"),
            KeyError::Password { path, reason } => {
                (reason.clone()).within(format!("{path}: cannot decrypt the secret key"))
            }
        }
    }
}

impl Signer {
    /// Loads a secret key for signatures of this revision. Calls `password` only for an encrypted key.
    ///
    /// # Errors
    /// The file cannot be read, it is not a secret key, or the password is wrong.
    pub fn load(
        path: &Path,
        revision: Revision,
        password: impl FnOnce() -> Result<String, Message>,
    ) -> Result<Self, KeyError> {
        let unreadable = |reason: String| KeyError::Unreadable {
            path: path.display().to_string(),
            reason,
        };
        let text = std::fs::read_to_string(path).map_err(|e| unreadable(e.to_string()))?;
        if PublicKey::parse(&text).is_ok() {
            return Err(KeyError::Public {
                path: path.display().to_string(),
            });
        }
        let line = text.lines().nth(1).unwrap_or_default().trim();
        let bytes = STANDARD
            .decode(line)
            .map_err(|_| unreadable("its second line is not valid base64".to_owned()))?;
        if bytes.get(2..4) == Some(&NO_PASSWORD) {
            // `minisign -W` writes keys without the checksum that the library verifies.
            let key = SecretKey::from_bytes(&bytes).map_err(|e| unreadable(e.to_string()))?;
            return Ok(Self { key, revision });
        }
        let failed = |reason: Message| KeyError::Password {
            path: path.display().to_string(),
            reason,
        };
        let password = password().map_err(failed)?;
        let key = SecretKeyBox::from_string(&text)
            .map_err(|error| unreadable(error.to_string()))?
            .into_secret_key(Some(password))
            .map_err(|error| failed(error.to_string().into()))?;
        Ok(Self { key, revision })
    }

    /// Returns the content of `index.json.minisig`.
    pub(super) fn sign(&self, index: &[u8], name: &str, lock: Digest) -> Result<String, String> {
        let statement = Statement {
            name: name.to_owned(),
            lock,
            revision: Some(self.revision),
        };
        let comment = statement.to_string();
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

    /// Returns the revision that the signatures state.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the public key.
    ///
    /// # Errors
    /// The secret key is inconsistent.
    pub fn public_key(&self) -> Result<PublicKey, String> {
        let key = minisign::PublicKey::from_secret_key(&self.key).map_err(|e| e.to_string())?;
        PublicKey::parse(&key.to_base64()).map_err(|error| error.to_string())
    }
}

/// The contents of the files of a new key pair.
pub struct NewKeys {
    /// The secret key. Only the signer needs it.
    pub secret: String,
    /// The public key. Every site that verifies bundles needs it.
    pub public: String,
}

/// Generates a key pair in the format of `minisign -G`; the secret key is encrypted with `password`.
///
/// # Errors
/// The system has no source of randomness.
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

/// The signature of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleSignature {
    /// The ID of the key, as minisign prints it.
    pub key: String,
    /// Whether a trusted key made the signature. Otherwise these are claims of the file.
    pub verified: bool,
    /// `None` in the signatures of earlier versions and of other programs.
    pub revision: Option<Revision>,
}

impl BundleSignature {
    /// Returns what an unverified signature claims about a bundle, or `None` if it is not a signature.
    pub(crate) fn claimed(signature: &str, name: &str, lock: &Digest) -> Option<Self> {
        let comment = signature.lines().nth(2).unwrap_or_default();
        let comment = comment.strip_prefix("trusted comment: ");
        let statement = comment.and_then(|comment| Statement::parse(comment).ok().flatten());
        let statement = statement.filter(|s| s.name == name && s.lock == *lock);
        Some(Self {
            key: key_id(signature)?,
            verified: false,
            revision: statement.and_then(|statement| statement.revision),
        })
    }
}

/// Checks that one of the trusted keys made the signature of an `index.json`. Returns what the signature
/// states about the bundle, if kubexm made it.
///
/// # Errors
/// The reason, as the rest of a sentence about the bundle.
pub fn check(
    index: &[u8],
    signature: Option<&str>,
    trust: &[PublicKey],
) -> Result<Option<Statement>, Message> {
    let Some(signature) = signature else {
        return Err(
            Message::new("is not signed, but a signature by a trusted key is required").hint(
                "check where the bundle comes from; its builder signs it with `kubexm bundle sign`",
            ),
        );
    };
    let mut why = BadSignature::OtherKey;
    for key in trust {
        match key.verify(index, signature) {
            Ok(comment) => return Statement::parse(&comment),
            Err(BadSignature::OtherKey) => {}
            Err(other) => why = other,
        }
    }
    Err(match why {
        BadSignature::OtherKey => Message::new(format!("is signed with a key that is not trusted ({})", key_id(signature).unwrap_or_else(|| "unknown".to_owned()))).hint("check where the bundle comes from; --trust and spec.bundle.trust name the trusted keys"),
        BadSignature::Unreadable => {
            Message::new("its signature is not a valid minisign signature").hint("do not use this bundle")
                .to_owned()
        }
        BadSignature::Wrong => {
            Message::new("its signature is wrong: the index or the signature was changed").hint("do not use this bundle")
                .to_owned()
        }
    })
}

/// Returns the ID of the key that made a signature, as minisign prints it.
pub fn key_id(signature: &str) -> Option<String> {
    let bytes = STANDARD.decode(signature.lines().nth(1)?.trim()).ok()?;
    let id: [u8; 8] = bytes.get(2..10)?.try_into().ok()?;
    Some(format!("{:016X}", u64::from_le_bytes(id)))
}

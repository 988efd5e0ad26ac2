//! OpenPGP keys that the user trusts, from files on this machine, and what they have signed.

use std::path::{Path, PathBuf};

use pgp::composed::{CleartextSignedMessage, Deserializable, DetachedSignature, SignedPublicKey};

/// What stands before each key of an armoured file, after whatever people wrote above it.
const ARMOUR: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
/// No keyring is larger.
const LARGEST: u64 = 16 * 1024 * 1024;

/// Keys, any of which may have signed.
pub struct Keyring {
    keys: Vec<SignedPublicKey>,
    names: String,
}

impl Keyring {
    /// Reads the keys of all files, binary or armoured.
    ///
    /// # Errors
    /// The first file that cannot be read or holds no key.
    pub fn load(files: &[PathBuf]) -> Result<Self, String> {
        let mut keys = Vec::new();
        for file in files {
            keys.extend(keys_of(file)?);
        }
        let names: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
        Ok(Self {
            keys,
            names: names.join(", "),
        })
    }

    /// The text of a clear-signed message, once one of the keys is found to have signed it.
    ///
    /// # Errors
    /// A sentence that says why the text cannot be trusted.
    pub fn clear_signed(&self, signed: &str) -> Result<String, String> {
        let (message, _) = CleartextSignedMessage::from_string(signed).map_err(|error| {
            format!("it is not clear-signed ({error}): is a mirror serving another page?")
        })?;
        let good = self.keys.iter().any(|key| {
            message.verify(&key.primary_key).is_ok()
                || key
                    .public_subkeys
                    .iter()
                    .any(|subkey| message.verify(&subkey.key).is_ok())
        });
        match good {
            true => Ok(message.signed_text().replace("\r\n", "\n")),
            false => Err(self.nobody()),
        }
    }

    /// Checks an armoured signature that was published beside `content`.
    ///
    /// # Errors
    /// A sentence that says why the content cannot be trusted.
    pub fn detached_text(&self, content: &[u8], signature: &str) -> Result<(), String> {
        let (signature, _) = DetachedSignature::from_string(signature).map_err(|error| {
            format!("its signature is none ({error}): is a mirror serving another page?")
        })?;
        self.detached(content, &signature)
    }

    /// Checks a binary signature over `content`.
    ///
    /// # Errors
    /// A sentence that says why the content cannot be trusted.
    pub fn detached_bytes(&self, content: &[u8], signature: &[u8]) -> Result<(), String> {
        let signature = DetachedSignature::from_bytes(signature)
            .map_err(|error| format!("its signature cannot be read: {error}"))?;
        self.detached(content, &signature)
    }

    fn detached(&self, content: &[u8], signature: &DetachedSignature) -> Result<(), String> {
        let good = self.keys.iter().any(|key| {
            signature.verify(&key.primary_key, content).is_ok()
                || key
                    .public_subkeys
                    .iter()
                    .any(|subkey| signature.verify(&subkey.key, content).is_ok())
        });
        match good {
            true => Ok(()),
            false => Err(self.nobody()),
        }
    }

    fn nobody(&self) -> String {
        format!("no key of {} has signed it", self.names)
    }
}

fn keys_of(file: &Path) -> Result<Vec<SignedPublicKey>, String> {
    use std::io::Read;
    let wrong =
        |reason: &dyn std::fmt::Display| format!("the keyring {}: {reason}", file.display());
    let mut bytes = Vec::new();
    std::fs::File::open(file)
        .and_then(|opened| opened.take(LARGEST).read_to_end(&mut bytes))
        .map_err(|error| {
            wrong(&format!(
                "{error}; take it from the distribution's own medium or keyring package (README)"
            ))
        })?;
    let keys: Vec<SignedPublicKey> = match std::str::from_utf8(&bytes) {
        Ok(text) if text.contains(ARMOUR) => {
            let blocks = text.match_indices(ARMOUR).map(|(at, _)| &text[at..]);
            blocks
                .filter_map(|block| SignedPublicKey::from_string(block).ok())
                .map(|(key, _)| key)
                .collect()
        }
        _ => SignedPublicKey::from_reader_many(bytes.as_slice())
            .map_err(|error| wrong(&error))?
            .0
            .filter_map(Result::ok)
            .collect(),
    };
    match keys.is_empty() {
        true => Err(wrong(&"it holds no key")),
        false => Ok(keys),
    }
}

//! The key that signs the tokens of service accounts.

use rcgen::KeyPair;

use crate::error::{PkiError, invalid};
use crate::pair::new_key;
use crate::rotation;
use crate::store::CertificateStore;

/// A key that signs tokens. The private key is secret, so there is no `Debug`.
#[derive(Clone)]
pub struct SigningKey {
    /// The public key, PEM; in a rotation also the next or the former one.
    pub public: String,
    /// The private key, PEM.
    pub private: String,
}

impl SigningKey {
    /// Loads the key pair `name` from the store, or creates it. Beside an encrypted key, the public one is in clear text: commands
    /// compare it with that of hosts.
    pub fn load_or_create(store: &CertificateStore, name: &str) -> Result<Self, PkiError> {
        let file = format!("{name}.key");
        let found = store.stored_secret(&file)?;
        let key = match &found {
            Some((text, _)) => KeyPair::from_pem(text).map_err(|error| invalid(name, error))?,
            None => new_key(name)?,
        };
        let own = Self::of(&key);
        let public = format!("{name}.pub");
        let is_new = found.is_none();
        // The cluster can have the key: its public one is never missing, also if this run is killed. That of a new key comes last.
        if store.encrypts() && !is_new {
            store.write(&public, &own.public)?;
        }
        if found.is_none_or(|(_, is_clear)| is_clear && store.encrypts()) {
            store.write_secret(&file, &own.private)?;
        }
        if store.encrypts() && is_new {
            store.write(&public, &own.public)?;
        }
        Ok(Self {
            public: rotation::trusted_keys(store, name, &own.public)?,
            ..own
        })
    }

    fn of(key: &KeyPair) -> Self {
        Self {
            public: key.public_key_pem(),
            private: key.serialize_pem(),
        }
    }
}

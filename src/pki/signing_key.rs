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
    /// Loads the key pair `name` from the store, or creates it.
    pub fn load_or_create(store: &CertificateStore, name: &str) -> Result<Self, PkiError> {
        if let Some(text) = store.read(&format!("{name}.key"))? {
            let key = KeyPair::from_pem(&text).map_err(|error| invalid(name, error))?;
            let own = Self::of(&key);
            return Ok(Self {
                public: rotation::trusted_keys(store, name, &own.public)?,
                ..own
            });
        }
        let key = Self::of(&new_key(name)?);
        store.write(&format!("{name}.key"), &key.private)?;
        Ok(key)
    }

    fn of(key: &KeyPair) -> Self {
        Self {
            public: key.public_key_pem(),
            private: key.serialize_pem(),
        }
    }
}

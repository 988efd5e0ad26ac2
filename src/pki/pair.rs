//! A certificate with its key.

use rcgen::KeyPair;

use crate::error::{PkiError, invalid};

/// A certificate with its key. The key is secret, so there is no `Debug`.
#[derive(Clone)]
pub struct Pair {
    /// The certificate, PEM.
    pub certificate: String,
    /// The private key, PEM.
    pub key: String,
}

/// Creates a private key. `name` is for the error.
pub(crate) fn new_key(name: &str) -> Result<KeyPair, PkiError> {
    KeyPair::generate().map_err(|error| invalid(name, error))
}

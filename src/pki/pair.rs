//! A certificate with its key.

use std::sync::Arc;

use rcgen::KeyPair;
use rustls::SignatureAlgorithm;
use rustls::crypto::ring::default_provider;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, SubjectPublicKeyInfoDer};
use rustls::sign::{CertifiedKey, SigningKey};

use crate::error::{PkiError, invalid};

/// A certificate with its key. The key is secret, so there is no `Debug`.
#[derive(Clone)]
pub struct Pair {
    /// The certificate, PEM.
    pub certificate: String,
    /// The private key, PEM.
    pub key: String,
}

impl Pair {
    /// Returns a certificate that another program created, with its key. `name` is for the error.
    ///
    /// # Errors
    /// A text is not in PEM, or the key is not that of the certificate.
    pub fn of(name: &str, certificate: String, key: String) -> Result<Self, PkiError> {
        let cause = |error: &dyn std::fmt::Display| invalid(name, error);
        let chain = CertificateDer::pem_slice_iter(certificate.as_bytes());
        let chain = chain.collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| cause(&error))?;
        let private = PrivateKeyDer::from_pem_slice(key.as_bytes());
        let private = private.map_err(|error| cause(&error))?;
        CertifiedKey::from_der(chain, private, &default_provider())
            .map_err(|error| cause(&error))?;
        Ok(Self { certificate, key })
    }
}

/// Returns whether a private key belongs to the first public key of a text. Both are in PEM.
pub fn is_key_of(public: &str, private: &str) -> bool {
    let own = signing_key(private);
    let own = own.and_then(|key| Some(key.public_key()?.to_vec()));
    let public = SubjectPublicKeyInfoDer::from_pem_slice(public.as_bytes()).ok();
    own.is_some() && own == public.map(|key| key.to_vec())
}

/// Returns whether a key in PEM is one of Ed25519.
pub(crate) fn is_ed25519(key: &str) -> bool {
    signing_key(key).is_some_and(|key| key.algorithm() == SignatureAlgorithm::ED25519)
}

/// Returns a private key in PEM; `None` if it is damaged or of an unknown kind.
fn signing_key(key: &str) -> Option<Arc<dyn SigningKey>> {
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).ok()?;
    any_supported_type(&key).ok()
}

/// Creates a private key. `name` is for the error.
pub(crate) fn new_key(name: &str) -> Result<KeyPair, PkiError> {
    KeyPair::generate().map_err(|error| invalid(name, error))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::signing_key::SigningKey;
    use crate::{Ca, CertificateStore, Leaf};

    #[test]
    fn key_must_be_that_of_the_certificate() {
        let dir = tempfile::tempdir().unwrap();
        let store = CertificateStore::new(dir.path());
        let ca = Ca::load_or_create(&store, "one").unwrap();
        let [one, other] =
            ["a", "b"].map(|name| ca.issue(&store, name, &Leaf::client(name, None)).unwrap());
        Pair::of("a", one.certificate.clone(), one.key.clone()).unwrap();
        assert!(Pair::of("a", one.certificate.clone(), other.key).is_err());
        assert!(Pair::of("a", String::new(), one.key).is_err());
        assert!(Pair::of("a", one.certificate, "key".to_owned()).is_err());
        let [one, other] = ["a", "b"].map(|name| SigningKey::load_or_create(&store, name).unwrap());
        assert!(is_key_of(&one.public, &one.private));
        assert!(!is_key_of(&one.public, &other.private));
        assert!(!is_key_of("", "") && !is_key_of(&one.public, ""));
    }
}

//! A key that may have made signatures, and whether its certificate permits that.

use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{PublicKey, PublicSubkey, Signature};
use pgp::types::KeyDetails;

use super::error::{Refusal, Refused};
use super::names;

/// A primary key or a subkey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AnyKey {
    Primary(PublicKey),
    Subkey(PublicSubkey),
}

/// When a key is valid, in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lifetime {
    /// The key ID.
    pub key: String,
    pub created: u64,
    /// `None` if the key never expires.
    pub expires: Option<u64>,
}

/// A key with the result of checking its certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SigningKey {
    pub key: AnyKey,
    /// The key ID.
    pub id: String,
    /// The lifetimes of the key and of its primary key, or why the key must not sign.
    pub standing: Result<Vec<Lifetime>, Refused>,
}

impl SigningKey {
    /// Returns an error about this key.
    pub fn refused(&self, cause: Refusal) -> Refused {
        Refused {
            key: self.id.clone(),
            cause,
        }
    }

    /// Whether the signature names this key. If it names no key, the key must match the signature,
    /// because otherwise every key of the keyring may have made it.
    pub fn may_have_made(&self, signature: &Signature, content: &[u8]) -> bool {
        let is_named = match &self.key {
            AnyKey::Primary(key) => names(signature, key),
            AnyKey::Subkey(key) => names(signature, key),
        };
        is_named.unwrap_or_else(|| self.verifies(signature, content))
    }

    /// Whether this key made the signature of the content.
    pub fn verifies(&self, signature: &Signature, content: &[u8]) -> bool {
        let verified = match &self.key {
            AnyKey::Primary(key) => signature.verify(key, content),
            AnyKey::Subkey(key) => signature.verify(key, content),
        };
        verified.is_ok()
    }

    /// Checks that the key was permitted to sign at the time `made`, and is still valid at the time `now`
    /// if there is one.
    ///
    /// # Errors
    /// The key that was not, and why.
    pub fn check_at(&self, made: u64, now: Option<u64>) -> Result<(), Refused> {
        for lifetime in self.standing.as_ref().map_err(Clone::clone)? {
            lifetime.check_at(made, now).map_err(|cause| Refused {
                key: lifetime.key.clone(),
                cause,
            })?;
        }
        Ok(())
    }
}

impl Lifetime {
    /// Returns the lifetime of a key whose self-signature sets an expiry, in seconds after its creation.
    pub fn of(key: &impl KeyDetails, expires: Option<u32>) -> Self {
        let created = u64::from(key.created_at().as_secs());
        Self {
            key: super::error::shown(&key.legacy_key_id()),
            created,
            // Zero means that the key does not expire (RFC 9580, 5.2.3.13).
            expires: expires
                .filter(|seconds| *seconds != 0)
                .map(|seconds| created + u64::from(seconds)),
        }
    }

    fn check_at(&self, made: u64, now: Option<u64>) -> Result<(), Refusal> {
        let created = self.created;
        match self.expires {
            _ if made < created => Err(Refusal::BeforeKey { made, created }),
            Some(at) if at <= made => Err(Refusal::ExpiredAtSigning { at, made }),
            Some(at) if now.is_some_and(|now| at <= now) => Err(Refusal::Expired { at }),
            _ => Ok(()),
        }
    }
}

/// Checks the digest of a document's signature (RFC 9580, 9.5).
///
/// # Errors
/// The digest is too weak.
pub(super) fn check_digest(signature: &Signature) -> Result<(), Refusal> {
    match signature.hash_alg() {
        Some(HashAlgorithm::Md5) => Err(Refusal::WeakDigest("MD5".to_owned())),
        Some(HashAlgorithm::Sha1) => Err(Refusal::WeakDigest("SHA-1".to_owned())),
        Some(HashAlgorithm::Ripemd160) => Err(Refusal::WeakDigest("RIPEMD-160".to_owned())),
        _ => Ok(()),
    }
}

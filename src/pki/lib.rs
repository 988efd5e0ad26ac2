//! Certificate authorities of kubexm, and the certificates that they sign. This crate connects to no host.

mod ca;
mod certificate;
mod encryption;
mod error;
pub mod expiry;
mod fingerprint;
pub mod kubernetes;
mod leaf;
mod pair;
pub mod registry_login;
pub mod request;
pub mod rotation;
mod sealed;
pub mod secret_keys;
mod signing_key;
pub mod site_ca;
mod store;
mod stream;
mod user_request;

pub use ca::Ca;
pub use certificate::{Certificate, same_certificates};
pub use encryption::KeyIdentity;
pub use error::PkiError;
pub use fingerprint::{ca_fingerprint, key_fingerprint, public_key_pin};
pub use leaf::{Leaf, Usage};
pub use pair::{Pair, is_key_of};
pub use sealed::is_mark;
pub use signing_key::SigningKey;
pub use store::CertificateStore;
pub use stream::{EncryptedWriter, OpenError, Recipients, is_encrypted};
pub use user_request::UserRequest;

#[cfg(test)]
mod tests;

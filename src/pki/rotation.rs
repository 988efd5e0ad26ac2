//! The files of an authority while it is replaced. Beside the present authority, the store has the next one until programs sign
//! with it, and then the former one until no program trusts it any more:
//!
//! | phase | present | other file |
//! | --- | --- | --- |
//! | trust | the old one | `NAME.next` |
//! | switch | the new one | `NAME.former` |
//! | remove | the new one | |

use rcgen::KeyPair;

use crate::ca::Ca;
use crate::error::{PkiError, invalid};
use crate::pair::{Pair, new_key};
use crate::store::{CertificateStore, failed};
use kubexm_types::Authority;

/// The extensions of keys: in clear text, of an encrypted CA, and of an encrypted key of service accounts.
const KEYS: [&str; 3] = ["key", "key.age", "key.sealed"];

/// An authority of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A CA: a certificate and its key.
    Ca,
    /// The key of service accounts. What programs trust is its public key.
    Key,
}

impl Kind {
    /// Returns the kind of an authority of a cluster.
    pub fn of(authority: Authority) -> Self {
        match authority {
            Authority::ServiceAccounts => Self::Key,
            Authority::Kubernetes
            | Authority::FrontProxy
            | Authority::Etcd
            | Authority::Registry => Self::Ca,
        }
    }

    /// Returns the extension of what programs trust.
    fn public(self) -> &'static str {
        match self {
            Self::Ca => "crt",
            Self::Key => "pub",
        }
    }
}

/// Returns the certificates or public keys that programs trust, the one of the present authority first.
pub(crate) fn trusted(
    store: &CertificateStore,
    name: &str,
    present: &str,
) -> Result<String, PkiError> {
    both(store, name, Kind::Ca, present)
}

pub(crate) fn trusted_keys(
    store: &CertificateStore,
    name: &str,
    present: &str,
) -> Result<String, PkiError> {
    both(store, name, Kind::Key, present)
}

fn both(
    store: &CertificateStore,
    name: &str,
    kind: Kind,
    present: &str,
) -> Result<String, PkiError> {
    let mut all = with_end(present);
    for other in ["next", "former"] {
        let text = store.read(&format!("{name}.{other}.{}", kind.public()))?;
        // A switch that was interrupted can leave a copy of the present one.
        let text = text.map(|text| with_end(&text));
        all.push_str(
            text.filter(|text| !all.contains(text.as_str()))
                .as_deref()
                .unwrap_or_default(),
        );
    }
    Ok(all)
}

fn with_end(text: &str) -> String {
    format!("{}\n", text.trim_end())
}

/// Creates the next authority, unless it exists. `subject` is that of the CA.
///
/// # Errors
/// Files cannot be read or written.
pub fn begin(
    store: &CertificateStore,
    name: &str,
    kind: Kind,
    subject: &str,
) -> Result<(), PkiError> {
    let next = format!("{name}.next");
    match kind {
        Kind::Ca => Ca::load_or_create_for(store, &next, subject),
        Kind::Key => {
            let key = match store.read_secret(&format!("{next}.key"))? {
                Some(text) => KeyPair::from_pem(&text).map_err(|error| invalid(&next, error))?,
                None => new_key(&next)?,
            };
            store.write_secret(&format!("{next}.key"), &key.serialize_pem())?;
            store.write(&format!("{next}.pub"), &key.public_key_pem())
        }
    }
}

/// Takes over the CA of another program as the next one, unless that exists or `given` has none.
///
/// # Errors
/// Files cannot be read or written, or as `given`.
pub fn begin_with(
    store: &CertificateStore,
    name: &str,
    given: impl FnOnce() -> Result<Option<Pair>, PkiError>,
) -> Result<(), PkiError> {
    Ca::take(store, &format!("{name}.next"), given).map(drop)
}

/// Makes the next authority the present one, and keeps what programs trust of the former one. Does nothing if there is no next
/// one, and completes a switch that was interrupted.
///
/// # Errors
/// Files cannot be read or written.
pub fn switch(store: &CertificateStore, name: &str, kind: Kind) -> Result<(), PkiError> {
    let public = kind.public();
    let next = format!("{name}.next.{public}");
    let Some(new) = store.read(&next)? else {
        return Ok(());
    };
    let former = format!("{name}.former.{public}");
    if store.read(&former)?.is_none() {
        let present = match kind {
            Kind::Ca => store.read(&format!("{name}.crt"))?,
            Kind::Key => public_key(store, name)?,
        };
        store.write(&former, &present.unwrap_or_default())?;
    }
    for extension in KEYS {
        if store.path(&format!("{name}.next.{extension}")).exists() {
            store.rename(
                &format!("{name}.next.{extension}"),
                &format!("{name}.{extension}"),
            )?;
            for other in KEYS.iter().filter(|other| **other != extension) {
                store.remove(&format!("{name}.{other}"))?;
            }
        }
    }
    // The file of the next one is removed last: until then, this function runs again.
    store.write(&format!("{name}.{public}"), &new)?;
    store.remove(&next)
}

/// Returns the public key of the present key: that of the private key, or the one in the file of a key that is encrypted or elsewhere.
pub(crate) fn public_key(store: &CertificateStore, name: &str) -> Result<Option<String>, PkiError> {
    match store.read(&format!("{name}.key"))? {
        Some(text) => {
            let key = KeyPair::from_pem(&text).map_err(|error| invalid(name, error))?;
            Ok(Some(key.public_key_pem()))
        }
        None => store.read(&format!("{name}.pub")),
    }
}

/// Removes the former authority: nothing trusts it any more.
///
/// # Errors
/// The file cannot be removed.
pub fn finish(store: &CertificateStore, name: &str, kind: Kind) -> Result<(), PkiError> {
    store.remove(&format!("{name}.former.{}", kind.public()))
}

/// Removes the next authority: it is not used.
///
/// # Errors
/// A file cannot be removed.
pub fn cancel(store: &CertificateStore, name: &str, kind: Kind) -> Result<(), PkiError> {
    for extension in KEYS.into_iter().chain([kind.public()]) {
        store.remove(&format!("{name}.next.{extension}"))?;
    }
    Ok(())
}

/// What programs get of an authority that is replaced.
pub struct Public {
    /// What programs trust.
    pub trusted: String,
    /// The certificate or public key of the present authority.
    pub present: String,
}

/// Loads what programs get of an authority.
///
/// # Errors
/// A file cannot be read, or does not exist.
pub fn public(store: &CertificateStore, name: &str, kind: Kind) -> Result<Public, PkiError> {
    let present = present(store, name, kind)?;
    Ok(Public {
        trusted: both(store, name, kind, &present)?,
        present: with_end(&present),
    })
}

/// What a rotation does with the files of an authority that is not in the store, as those of kubeadm.
pub struct Elsewhere {
    /// What programs trust.
    pub trusted: String,
    /// The certificate or public key of the present authority.
    pub present: String,
    /// The key of the present authority, if it is a new one: the former key stays where it is. Secret.
    pub key: Option<String>,
}

/// Records the present authority of a store that does not have its key.
///
/// # Errors
/// The file cannot be written.
pub fn record(
    store: &CertificateStore,
    name: &str,
    kind: Kind,
    public: &str,
) -> Result<(), PkiError> {
    let file = format!("{name}.{}", kind.public());
    match store.read(&file)? {
        Some(_) => Ok(()),
        None => store.write(&file, &with_end(public)),
    }
}

/// Returns the certificate or public key of the present authority.
///
/// # Errors
/// The file cannot be read, or does not exist.
pub fn present(store: &CertificateStore, name: &str, kind: Kind) -> Result<String, PkiError> {
    let file = format!("{name}.{}", kind.public());
    let missing = || {
        let reason = format!("{} does not exist", store.path(&file).display());
        invalid(name, reason).hint("restore the state directory from a backup")
    };
    let found = match kind {
        Kind::Ca => store.read(&file)?,
        Kind::Key => public_key(store, name)?,
    };
    found.ok_or_else(missing)
}

/// Loads an authority that was recorded.
///
/// # Errors
/// A file cannot be read, or the key is encrypted and the store has no identity.
pub fn load(store: &CertificateStore, name: &str, kind: Kind) -> Result<Elsewhere, PkiError> {
    let Public { trusted, present } = public(store, name, kind)?;
    let key = match kind {
        Kind::Ca => store.ca_key(name)?,
        Kind::Key => store.read_secret(&format!("{name}.key"))?,
    };
    Ok(Elsewhere {
        trusted,
        present,
        key,
    })
}

/// Returns what programs trust of the next and of the former authority; `None` for one that the store does not have.
///
/// # Errors
/// A file cannot be read.
pub fn others(
    store: &CertificateStore,
    name: &str,
    kind: Kind,
) -> Result<[Option<String>; 2], PkiError> {
    let of = |which: &str| store.read(&format!("{name}.{which}.{}", kind.public()));
    Ok([of("next")?, of("former")?])
}

impl CertificateStore {
    /// Gives a file another name, unless the store is read-only.
    fn rename(&self, from: &str, to: &str) -> Result<(), PkiError> {
        if self.is_read_only() {
            return Ok(());
        }
        let path = self.path(from);
        std::fs::rename(&path, self.path(to)).map_err(|error| failed("rename", &path, error))
    }
}

#[cfg(test)]
mod tests;

//! The keys with which the API servers encrypt Secrets in etcd. They stay in the state directory: without them, no program
//! can read the Secrets of a backup of etcd.

use base64::Engine as _;

use crate::error::{PkiError, invalid};
use crate::store::CertificateStore;
use kubexm_config::cluster::{Encryption, EncryptionProvider};

/// A key.
#[derive(Clone, PartialEq, Eq)]
pub struct EncryptionKey {
    pub provider: EncryptionProvider,
    /// The name in the API server's configuration: the number and a random part, so that keys of different state
    /// directories have different names.
    pub name: String,
    /// 32 bytes in base64. Secret.
    pub secret: String,
}

/// The keys of a cluster.
#[derive(Clone)]
pub struct EncryptionKeys {
    /// Whether the API servers write with the first key; otherwise they write plain text.
    pub writes: bool,
    /// The keys of the provider that writes, in the order of the API server's configuration. The second is the next
    /// one, so that every API server can read what another one writes after the number was increased.
    pub keys: Vec<EncryptionKey>,
    /// The keys of providers that the cluster used before.
    pub former: Vec<EncryptionKey>,
}

impl EncryptionKeys {
    /// Loads the keys from the store, and creates those that are missing.
    ///
    /// # Errors
    /// Files cannot be read or written, or a file is not a key.
    pub fn load_or_create(
        store: &CertificateStore,
        encryption: Encryption,
    ) -> Result<Self, PkiError> {
        let keys = order(encryption.key)
            .into_iter()
            .map(|number| load_or_create(store, encryption.provider, number));
        let keys = keys.collect::<Result<_, _>>()?;
        let mut former = Vec::new();
        for provider in EncryptionProvider::ALL {
            if *provider == encryption.provider {
                continue;
            }
            let mut number = 1;
            while let Some(key) = load(store, *provider, number)? {
                former.push(key);
                number += 1;
            }
        }
        Ok(Self {
            writes: encryption.key > 0,
            keys,
            former,
        })
    }

    /// Returns placeholders.
    pub fn placeholder(encryption: Encryption) -> Self {
        let key = |number| EncryptionKey {
            provider: encryption.provider,
            name: format!("key{number}"),
            secret: format!("<encryption key {number}>"),
        };
        Self {
            writes: encryption.key > 0,
            keys: order(encryption.key).into_iter().map(key).collect(),
            former: Vec::new(),
        }
    }

    /// Returns all keys.
    pub fn all(&self) -> impl Iterator<Item = &EncryptionKey> {
        self.keys.iter().chain(&self.former)
    }
}

/// Returns the numbers of the keys: the one that writes, the next one, and the former ones.
fn order(key: u32) -> Vec<u32> {
    let first = key.max(1);
    let mut numbers = vec![first];
    if key > 0 {
        numbers.push(first + 1);
    }
    numbers.extend((1..first).rev());
    numbers
}

/// The beginning of the names of their files.
pub(super) const PREFIX: &str = "encryption-";

fn file(provider: EncryptionProvider, number: u32) -> String {
    format!("{PREFIX}{}-{number}.key", provider.name())
}

fn load(
    store: &CertificateStore,
    provider: EncryptionProvider,
    number: u32,
) -> Result<Option<EncryptionKey>, PkiError> {
    let file = file(provider, number);
    let Some(text) = store.read_secret(&file)? else {
        return Ok(None);
    };
    let engine = base64::engine::general_purpose::STANDARD;
    let parts: Vec<&str> = text.split_whitespace().collect();
    match parts.as_slice() {
        [name, secret] if engine.decode(secret).is_ok_and(|bytes| bytes.len() == 32) => {
            Ok(Some(EncryptionKey {
                provider,
                name: (*name).to_owned(),
                secret: (*secret).to_owned(),
            }))
        }
        _ => Err(invalid(&file, "is not an encryption key")
            .hint("restore the file from a backup of the state directory")),
    }
}

fn load_or_create(
    store: &CertificateStore,
    provider: EncryptionProvider,
    number: u32,
) -> Result<EncryptionKey, PkiError> {
    if let Some(key) = load(store, provider, number)? {
        return Ok(key);
    }
    let file = file(provider, number);
    let failed = |error: getrandom::Error| invalid(&file, error);
    let (mut id, mut secret) = ([0u8; 4], [0u8; 32]);
    getrandom::fill(&mut id).map_err(failed)?;
    getrandom::fill(&mut secret).map_err(failed)?;
    let key = EncryptionKey {
        provider,
        name: format!("key{number}-{}", hex::encode(id)),
        secret: base64::engine::general_purpose::STANDARD.encode(secret),
    };
    store.write_secret(&file, &format!("{} {}\n", key.name, key.secret))?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encryption::KeyIdentity;
    use crate::sealed;

    fn names(keys: &EncryptionKeys) -> Vec<String> {
        let names = keys.keys.iter().map(|key| &key.name);
        names
            .map(|name| name.split('-').next().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn former_keys_remain_readable_and_the_next_one_is_known_before_it_writes() {
        let dir = tempfile::tempdir().unwrap();
        let store = CertificateStore::new(dir.path());
        let provider = EncryptionProvider::Secretbox;
        let with = |provider, key| {
            EncryptionKeys::load_or_create(&store, Encryption { provider, key }).unwrap()
        };
        let prepared = with(provider, 0);
        assert_eq!(
            (prepared.writes, names(&prepared)),
            (false, vec!["key1".to_owned()])
        );
        let first = with(provider, 1);
        assert_eq!(names(&first), ["key1", "key2"]);
        assert!(first.writes && first.keys[0] == prepared.keys[0]);
        let second = with(provider, 2);
        assert_eq!(names(&second), ["key2", "key3", "key1"]);
        assert!(second.keys[0] == first.keys[1] && second.keys[2] == first.keys[0]);
        let other = with(EncryptionProvider::AesCbc, 1);
        assert_eq!(names(&other), ["key1", "key2"]);
        assert!(second.keys.iter().all(|key| other.former.contains(key)));
        assert_ne!(other.keys[0].secret, first.keys[0].secret);
    }

    fn identity() -> KeyIdentity {
        let text = "AGE-SECRET-KEY-1QQQSYQCYQ5RQWZQFPG9SCRGWPUGPZYSNZS23V9CCRYDPK8QARC0SWRYDWG";
        KeyIdentity::parse(text).unwrap()
    }

    /// An earlier kubexm found no key, created another one for the API servers, and the next kubexm replaced the right one with it.
    #[test]
    fn an_encrypted_key_is_never_replaced_by_that_of_an_earlier_kubexm() {
        let dir = tempfile::tempdir().unwrap();
        let clear = CertificateStore::new(dir.path());
        let store = clear.clone().encrypted(Some(identity()));
        let encryption = Encryption {
            provider: EncryptionProvider::AesCbc,
            key: 1,
        };
        let load = |store: &CertificateStore| EncryptionKeys::load_or_create(store, encryption);
        let first = load(&clear).unwrap();
        assert!(load(&store).unwrap().keys == first.keys);
        let place = dir.path().join("encryption-aescbc-1.key");
        let mark = std::fs::read_to_string(&place).unwrap();
        assert!(sealed::is_mark(mark.as_bytes()));
        // What an earlier kubexm makes of the file.
        assert_ne!(mark.split_whitespace().count(), 2);
        assert!(load(&store).unwrap().keys == first.keys);
        std::fs::remove_file(&place).unwrap();
        load(&store).unwrap();
        assert_eq!(std::fs::read_to_string(&place).unwrap(), mark);
        // A run was killed before it replaced the file in clear text.
        let key = |key: &EncryptionKey| format!("{} {}\n", key.name, key.secret);
        std::fs::write(&place, key(&first.keys[0])).unwrap();
        assert!(load(&store).unwrap().keys == first.keys);
        assert_eq!(std::fs::read_to_string(&place).unwrap(), mark);
        let encrypted = dir.path().join("encryption-aescbc-1.key.sealed");
        let before = std::fs::read(&encrypted).unwrap();
        let other = key(&first.keys[1]);
        std::fs::write(&place, &other).unwrap();
        let error = load(&store).err().unwrap();
        assert!(matches!(error, PkiError::TwoKeys { .. }), "{error}");
        assert!(matches!(load(&clear), Err(PkiError::EncryptedKey { .. })));
        assert_eq!(std::fs::read_to_string(&place).unwrap(), other);
        assert_eq!(std::fs::read(&encrypted).unwrap(), before);
        // The encrypted key is lost: another one does not take its place.
        std::fs::write(&place, &mark).unwrap();
        std::fs::remove_file(&encrypted).unwrap();
        assert!(load(&store).is_err() && load(&clear).is_err());
        assert!(!encrypted.exists());
    }

    #[test]
    fn a_damaged_key_is_an_error_and_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let store = CertificateStore::new(dir.path());
        let encryption = Encryption {
            provider: EncryptionProvider::AesCbc,
            key: 1,
        };
        EncryptionKeys::load_or_create(&store, encryption).unwrap();
        let path = dir.path().join("encryption-aescbc-1.key");
        std::fs::write(&path, "key1 c2hvcnQ=\n").unwrap();
        assert!(EncryptionKeys::load_or_create(&store, encryption).is_err());
        assert_eq!(std::fs::read_to_string(path).unwrap(), "key1 c2hvcnQ=\n");
    }
}

//! The keys that encrypt Secrets in etcd, in a backup and in the state directory.

use std::path::Path;

use super::content::{StateFile, clear_name, has};
use kubexm_pki::{CertificateStore, KeyIdentity, is_mark};

/// Returns the names of the keys in a backup that the state directory does not have. `identity` opens encrypted ones.
pub(super) fn missing(
    backup: &[StateFile],
    state: &Path,
    identity: Option<KeyIdentity>,
) -> Vec<String> {
    let pair = identity.as_ref().and_then(|identity| {
        let mut files = backup.iter();
        let (_, key) = files.find(|(name, _)| name == "pki/archive.key.age")?;
        KeyIdentity::parse(&opened(identity, key)?).ok()
    });
    let store = CertificateStore::read_only(state.join("pki")).encrypted(identity);
    let is_missing = |name: &str, content: &[u8]| {
        let Some(file) = name.strip_prefix("pki/") else {
            return false;
        };
        if !file.starts_with("encryption-") || is_mark(content) {
            return false;
        }
        let found = std::fs::read(state.join(name)).ok();
        if found.as_deref() == Some(content) {
            return false;
        }
        if !has(state, name) {
            return true;
        }
        // Two encryptions of a key differ.
        let own = store.secret(clear_name(file)).ok().flatten();
        let saved = if file == clear_name(file) {
            String::from_utf8(content.to_vec()).ok()
        } else {
            pair.as_ref().and_then(|pair| opened(pair, content))
        };
        match own.zip(saved) {
            Some((own, saved)) => own != saved,
            None => found.is_some(),
        }
    };
    let missing = backup
        .iter()
        .filter(|(name, content)| is_missing(name, content));
    missing.map(|(name, _)| name.clone()).collect()
}

/// Returns the text of an encrypted file; `None` if the identity does not open it.
fn opened(identity: &KeyIdentity, encrypted: &[u8]) -> Option<String> {
    let reader = identity.decrypt_stream(encrypted).ok()?;
    std::io::read_to_string(reader).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::CaEncryption;
    use kubexm_pki::secret_keys::EncryptionKeys;
    use kubexm_types::Secret;

    /// The key was taken for another one, and an encrypted one did not come back beside the file that names it.
    #[test]
    fn encrypted_keys_of_secrets_are_compared_and_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let encryption = CaEncryption::Passphrase(Secret("right".to_owned()));
        let identity = || Some(encryption.identity().unwrap());
        let settings = kubexm_config::cluster::Encryption {
            provider: kubexm_config::cluster::EncryptionProvider::AesCbc,
            key: 0,
        };
        let name = "pki/encryption-aescbc-1.key";
        let sealed = format!("{name}.sealed");
        // Two state directories that encrypted the same key, and one with another key.
        let states = ["one", "same", "other"].map(|name| folder.path().join(name));
        let load = |state: &Path, identity| {
            let store = CertificateStore::new(state.join("pki")).encrypted(identity);
            EncryptionKeys::load_or_create(&store, settings).unwrap();
        };
        let [one, same, other] = &states;
        load(one, None);
        let clear = std::fs::read(one.join(name)).unwrap();
        std::fs::create_dir_all(same.join("pki")).unwrap();
        std::fs::write(same.join(name), &clear).unwrap();
        for state in &states {
            load(state, identity());
        }
        let files = ["pki/archive.key.age", name, &sealed];
        let backup: Vec<StateFile> = files
            .iter()
            .map(|name| ((*name).to_owned(), std::fs::read(one.join(name)).unwrap()))
            .collect();
        let former = [(name.to_owned(), clear)];
        for backup in [&backup[..], &former] {
            let missing = |state: &Path| super::missing(backup, state, identity());
            assert_eq!(missing(one), [""; 0]);
            assert_eq!(missing(same), [""; 0]);
            assert_eq!(missing(other).len(), 1);
            assert_eq!(missing(&folder.path().join("none")).len(), 1);
        }
        assert_eq!(super::missing(&backup, same, None), [sealed.as_str()]);
        std::fs::remove_file(same.join(&sealed)).unwrap();
        assert!(!has(same, &sealed) && has(one, name));
    }
}

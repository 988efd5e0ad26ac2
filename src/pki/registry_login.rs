//! The login of the nodes at the registry that kubexm runs. The password stays in the state directory.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use crate::error::{PkiError, invalid};
use crate::store::CertificateStore;
use kubexm_types::Secret;

/// The file in the store: a line `user:password`, and the line for the registry.
const FILE: &str = "registry-login";
const USER: &str = "kubexm";
/// The smallest cost of bcrypt. The registry hashes the password for each request, and no attacker can guess 256 random bits.
const COST: u32 = 4;

/// A user of the cluster's registry.
#[derive(Clone)]
pub struct RegistryLogin {
    /// The value of the header `Authorization` (RFC 7617, section 2).
    pub authorization: Secret,
    /// User and password, as in `user:password`.
    pub pair: Secret,
    /// The line of the user in the registry's `htpasswd` file: name and bcrypt hash.
    pub entry: Secret,
}

impl RegistryLogin {
    /// Loads the login from the store, or creates one with a random password.
    ///
    /// # Errors
    /// The file cannot be read or written, or is not a login.
    pub fn load_or_create(store: &CertificateStore) -> Result<Self, PkiError> {
        if let Some(text) = store.read(FILE)? {
            return parse(&text).ok_or_else(|| {
                invalid(FILE, "is not a login for the registry")
                    .hint("restore the file from a backup of the state directory")
            });
        }
        let failed = |error: &dyn std::fmt::Display| invalid(FILE, error);
        let mut password = [0u8; 32];
        getrandom::fill(&mut password).map_err(|error| failed(&error))?;
        let password = URL_SAFE_NO_PAD.encode(password);
        let hash = bcrypt::hash(&password, COST).map_err(|error| failed(&error))?;
        let login = Self::new(&format!("{USER}:{password}"), &format!("{USER}:{hash}"));
        let text = format!("{}\n{}\n", login.pair.0, login.entry.0);
        store.write(FILE, &text)?;
        Ok(login)
    }

    /// Returns a placeholder.
    pub fn placeholder() -> Self {
        Self::new("kubexm:<password>", "kubexm:<hash>")
    }

    fn new(pair: &str, entry: &str) -> Self {
        Self {
            authorization: Secret(format!("Basic {}", STANDARD.encode(pair))),
            pair: Secret(pair.to_owned()),
            entry: Secret(entry.to_owned()),
        }
    }
}

fn parse(text: &str) -> Option<RegistryLogin> {
    let mut lines = text.lines();
    let (pair, entry) = (lines.next()?, lines.next()?);
    let ((user, password), (name, hash)) = (pair.split_once(':')?, entry.split_once(':')?);
    let fits = user == USER && name == USER && bcrypt::verify(password, hash).unwrap_or(false);
    (fits && lines.next().is_none()).then(|| RegistryLogin::new(pair, entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cluster_has_a_password_of_its_own_which_stays_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let store = CertificateStore::new(dir.path().join("one"));
        let login = RegistryLogin::load_or_create(&store).unwrap();
        let again = RegistryLogin::load_or_create(&store).unwrap();
        assert!(again.pair == login.pair && again.entry == login.entry);
        let other = CertificateStore::new(dir.path().join("other"));
        let other = RegistryLogin::load_or_create(&other).unwrap();
        assert!(other.pair != login.pair);
        let password = login.pair.0.strip_prefix("kubexm:").unwrap();
        assert_eq!(password.len(), 43);
        let hash = login.entry.0.strip_prefix("kubexm:").unwrap();
        assert!(bcrypt::verify(password, hash).unwrap());
        assert!(!login.entry.0.contains(password));
        let decoded = login.authorization.0.strip_prefix("Basic ").unwrap();
        assert_eq!(STANDARD.decode(decoded).unwrap(), login.pair.0.as_bytes());
    }

    #[test]
    fn a_damaged_login_is_an_error_and_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let store = CertificateStore::new(dir.path());
        RegistryLogin::load_or_create(&store).unwrap();
        let path = dir.path().join(FILE);
        let whole = std::fs::read_to_string(&path).unwrap();
        for damaged in [
            "",
            "kubexm:other",
            &whole.replacen("kubexm:", "kubexm:x", 1),
        ] {
            std::fs::write(&path, damaged).unwrap();
            let error = RegistryLogin::load_or_create(&store).err().unwrap();
            let error = error.to_string();
            assert!(
                error.contains("hint: ") && !error.contains("kubexm:"),
                "{error}"
            );
            assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
        }
    }

    #[test]
    fn a_store_without_permission_to_write_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        RegistryLogin::load_or_create(&CertificateStore::read_only(dir.path())).unwrap();
        assert!(!dir.path().join(FILE).exists());
    }
}

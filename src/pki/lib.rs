//! Certificate authorities of kubexm, and the certificates that they sign. This crate connects to no host.

mod encryption;
pub mod kubernetes;
pub mod request;
pub mod secret_keys;
mod store;

use std::net::IpAddr;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType,
};
use time::{Duration, OffsetDateTime};

use kubexm_types::Digest;

pub use encryption::KeyIdentity;
pub use store::CertificateStore;
use store::StoredKey;

/// Why a certificate cannot be created or used.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file cannot be read or written.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// `create`, `read`, `remove` or `write`.
        action: &'static str,
        path: String,
        source: std::io::Error,
    },
    /// The key of a CA is not there, and this command needs it.
    #[error(
        "cannot {purpose}: {path} does not exist, but the certificate of this CA does\n\
         hint: put the key back for this command: kubexm never creates a CA where one exists"
    )]
    MissingKey {
        /// What the key is needed for, as in "issue the certificate registry".
        purpose: String,
        path: String,
    },
    /// The key of a CA is encrypted, and this command needs it.
    #[error(
        "cannot {purpose}: {path} is encrypted\n\
         hint: pass the identity file with which it was encrypted with --ca-identity"
    )]
    EncryptedKey {
        /// What the key is needed for.
        purpose: String,
        path: String,
    },
    /// A certificate or key is invalid.
    #[error("certificate or key {name}: {reason}")]
    Invalid {
        /// The name of the file without its extension.
        name: String,
        reason: String,
    },
}

/// Validity of a CA in days, as in kubeadm.
const CA_DAYS: i64 = 3650;
/// Validity of other certificates in days, as in kubeadm.
const LEAF_DAYS: i64 = 365;
/// kubexm renews a certificate that is valid for less than this number of days.
const RENEW_DAYS: i64 = 30;
/// Time between the start of the validity and the present, for hosts with slow clocks.
const SKEW: Duration = Duration::hours(1);

/// A certificate with its key. The key is secret, so there is no `Debug`.
#[derive(Clone)]
pub struct Pair {
    /// The certificate, PEM.
    pub certificate: String,
    /// The private key, PEM.
    pub key: String,
}

/// A key that signs tokens. The private key is secret, so there is no `Debug`.
#[derive(Clone)]
pub struct SigningKey {
    /// The public key, PEM.
    pub public: String,
    /// The private key, PEM.
    pub private: String,
}

fn new_key(name: &str) -> Result<KeyPair, PkiError> {
    KeyPair::generate().map_err(|error| invalid(name, error))
}

/// Returns the key of a certificate.
///
/// # Errors
/// The key belongs to another certificate.
fn of_certificate(name: &str, certificate: &str, key: String) -> Result<String, PkiError> {
    let pair = KeyPair::from_pem(&key).map_err(|error| invalid(name, error))?;
    let der = pem_content(name, certificate)?;
    let (_, parsed) =
        x509_parser::parse_x509_certificate(&der).map_err(|error| invalid(name, error))?;
    match parsed.tbs_certificate.subject_pki.raw == pair.subject_public_key_info() {
        true => Ok(key),
        false => Err(invalid(
            name,
            "the key belongs to another certificate\nhint: restore both files from the same backup",
        )),
    }
}

/// Returns the fingerprint of the CA `name` in the store; `None` if the store does not have its certificate.
///
/// # Errors
/// The certificate cannot be read, or is invalid.
pub fn ca_fingerprint(store: &CertificateStore, name: &str) -> Result<Option<Digest>, PkiError> {
    let text = store.read(&format!("{name}.crt"))?;
    text.map(|text| Ok(Digest::of(&pem_content(name, &text)?)))
        .transpose()
}

/// Returns the fingerprint of the public key of the key pair `name` in the store; `None` if the store does not
/// have it.
///
/// # Errors
/// The key cannot be read, or is invalid.
pub fn key_fingerprint(store: &CertificateStore, name: &str) -> Result<Option<Digest>, PkiError> {
    let fingerprint = |text: String| {
        let key = KeyPair::from_pem(&text).map_err(|error| invalid(name, error))?;
        Ok(Digest::of(&key.subject_public_key_info()))
    };
    store
        .read(&format!("{name}.key"))?
        .map(fingerprint)
        .transpose()
}

/// Loads the key pair `name` from the store, or creates it.
fn signing_key(store: &CertificateStore, name: &str) -> Result<SigningKey, PkiError> {
    let signing_key = |key: KeyPair| SigningKey {
        public: key.public_key_pem(),
        private: key.serialize_pem(),
    };
    if let Some(text) = store.read(&format!("{name}.key"))? {
        let key = KeyPair::from_pem(&text).map_err(|error| invalid(name, error))?;
        return Ok(signing_key(key));
    }
    let key = signing_key(new_key(name)?);
    store.write(&format!("{name}.key"), &key.private)?;
    Ok(key)
}

/// A certificate authority. Its key may be elsewhere, as long as nothing needs to be signed.
pub struct Ca {
    certificate: String,
    key: StoredKey,
    /// The path of the key's file without encryption, for messages.
    key_path: String,
}

impl Ca {
    /// Loads the CA `name` from the store. Creates it if the store has neither a certificate nor a key of this
    /// name; it never replaces one of them.
    ///
    /// A read-only store without the key gets a key in memory, so that the result has certificates to compare.
    ///
    /// # Errors
    /// The CA has expired, its key belongs to another certificate, or its files cannot be read or written.
    pub fn load_or_create(store: &CertificateStore, name: &str) -> Result<Self, PkiError> {
        let key = store.read_ca_key(name)?;
        let key_path = store.path(&format!("{name}.key")).display().to_string();
        let Some(certificate) = store.read(&format!("{name}.crt"))? else {
            return Self::create(store, name, key, key_path);
        };
        if days_left(name, &certificate)? < 0 {
            return Err(invalid(
                name,
                "the CA has expired\nhint: reset the cluster, and install it again with a new CA",
            ));
        }
        let key = match key {
            StoredKey::Readable(key) => {
                StoredKey::Readable(of_certificate(name, &certificate, key)?)
            }
            _ if store.is_read_only() => StoredKey::Readable(new_key(name)?.serialize_pem()),
            other => other,
        };
        Ok(Self {
            certificate,
            key,
            key_path,
        })
    }

    /// Creates a CA. `key` is the key of a creation that was interrupted before it wrote the certificate.
    fn create(
        store: &CertificateStore,
        name: &str,
        key: StoredKey,
        key_path: String,
    ) -> Result<Self, PkiError> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        set_validity(&mut params, CA_DAYS);
        let is_new = matches!(key, StoredKey::Missing);
        let key = match key {
            StoredKey::Readable(key) => {
                KeyPair::from_pem(&key).map_err(|error| invalid(name, error))?
            }
            StoredKey::Missing => new_key(name)?,
            StoredKey::Encrypted => {
                return Err(PkiError::EncryptedKey {
                    purpose: format!("create the certificate of the CA {name}"),
                    path: format!("{key_path}.age"),
                });
            }
        };
        let certificate = params
            .self_signed(&key)
            .map_err(|error| invalid(name, error))?
            .pem();
        let key = key.serialize_pem();
        if is_new {
            store.write_ca_key(name, &key)?;
        }
        // The certificate is written last, so that it never exists without its key.
        store.write(&format!("{name}.crt"), &certificate)?;
        Ok(Self {
            certificate,
            key: StoredKey::Readable(key),
            key_path,
        })
    }

    /// Returns the CA with its key, for programs that sign certificates. Secret.
    ///
    /// # Errors
    /// The key is not in the store, or is encrypted.
    pub fn pair(&self) -> Result<Pair, PkiError> {
        Ok(Pair {
            certificate: self.certificate.clone(),
            key: self.key("write the key of the CA to the hosts")?.to_owned(),
        })
    }

    /// Returns the CA's certificate, PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    fn key(&self, purpose: &str) -> Result<&str, PkiError> {
        let (purpose, path) = (purpose.to_owned(), self.key_path.clone());
        match &self.key {
            StoredKey::Readable(key) => Ok(key),
            StoredKey::Missing => Err(PkiError::MissingKey { purpose, path }),
            StoredKey::Encrypted => Err(PkiError::EncryptedKey {
                purpose,
                path: format!("{path}.age"),
            }),
        }
    }

    /// Loads the certificate `name` from the store. It issues a new one if the certificate does not exist, has
    /// another subject or CA, or is about to expire. Only then the CA's key is needed.
    ///
    /// # Errors
    /// Files cannot be read or written, the CA's key is needed and is not there, or `leaf` is invalid.
    pub fn issue(
        &self,
        store: &CertificateStore,
        name: &str,
        leaf: &Leaf,
    ) -> Result<Pair, PkiError> {
        let purpose = Digest::of(format!("{}{leaf:?}", self.certificate).as_bytes()).hex();
        let purpose_file = format!("{name}.for");
        let same_purpose = store
            .read(&purpose_file)?
            .is_some_and(|text| text == purpose);
        if let Some(pair) = store.load(name)?.filter(|_| same_purpose)
            && days_left(name, &pair.certificate)? >= RENEW_DAYS
        {
            return Ok(pair);
        }
        let pair = self.sign(name, leaf)?;
        store.save(name, &pair)?;
        store.write(&purpose_file, &purpose)?;
        Ok(pair)
    }

    fn sign(&self, name: &str, leaf: &Leaf) -> Result<Pair, PkiError> {
        let mut params = CertificateParams::default();
        let subject = &mut params.distinguished_name;
        subject.push(DnType::CommonName, &leaf.common_name);
        if let Some(organization) = &leaf.organization {
            subject.push(DnType::OrganizationName, organization);
        }
        for name in &leaf.names {
            let san = match name.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(name.clone().try_into().map_err(|e| invalid(name, e))?),
            };
            params.subject_alt_names.push(san);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = leaf.usage.extended();
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, LEAF_DAYS);
        let ca_key = self.key(&format!("issue the certificate {name}"))?;
        let ca_key = KeyPair::from_pem(ca_key).map_err(|error| invalid("CA key", error))?;
        let issuer = Issuer::from_ca_cert_pem(&self.certificate, ca_key)
            .map_err(|error| invalid("CA certificate", error))?;
        let key = KeyPair::generate().map_err(|error| invalid(name, error))?;
        let certificate = params
            .signed_by(&key, &issuer)
            .map_err(|error| invalid(name, error))?;
        Ok(Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// The subject and the purpose of a certificate.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// The common name, which is the user in Kubernetes.
    pub common_name: String,
    /// The organization, which is the group in Kubernetes.
    pub organization: Option<String>,
    /// DNS names and addresses.
    pub names: Vec<String>,
    pub usage: Usage,
}

/// The purpose of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// TLS servers.
    Server,
    /// TLS clients.
    Client,
    /// Servers and clients, as for members of etcd.
    Peer,
}

impl Usage {
    fn extended(self) -> Vec<ExtendedKeyUsagePurpose> {
        let (server, client) = (
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        );
        match self {
            Self::Server => vec![server],
            Self::Client => vec![client],
            Self::Peer => vec![server, client],
        }
    }
}

impl Leaf {
    /// Returns the subject of a server.
    pub fn server(common_name: &str, names: Vec<String>) -> Self {
        Self {
            common_name: common_name.to_owned(),
            organization: None,
            names,
            usage: Usage::Server,
        }
    }

    /// Returns the subject of a client.
    pub fn client(user: &str, group: Option<&str>) -> Self {
        Self {
            common_name: user.to_owned(),
            organization: group.map(str::to_owned),
            names: Vec::new(),
            usage: Usage::Client,
        }
    }
}

/// Returns kubeadm's pin of a CA: the digest of its public key
/// (<https://kubernetes.io/docs/reference/setup-tools/kubeadm/kubeadm-join/#token-based-discovery-with-ca-pinning>).
///
/// # Errors
/// The text is not a certificate in PEM.
pub fn public_key_pin(certificate: &str) -> Result<String, PkiError> {
    let der = pem_content("CA certificate", certificate)?;
    let (_, parsed) = x509_parser::parse_x509_certificate(&der)
        .map_err(|error| invalid("CA certificate", error))?;
    Ok(Digest::of(parsed.tbs_certificate.subject_pki.raw).to_string())
}

fn pem_content(what: &str, text: &str) -> Result<Vec<u8>, PkiError> {
    let (_, pem) =
        x509_parser::pem::parse_x509_pem(text.as_bytes()).map_err(|e| invalid(what, e))?;
    Ok(pem.contents)
}

fn days_left(what: &str, certificate: &str) -> Result<i64, PkiError> {
    let der = pem_content(what, certificate)?;
    let (_, parsed) =
        x509_parser::parse_x509_certificate(&der).map_err(|error| invalid(what, error))?;
    let end = parsed.validity().not_after.timestamp();
    Ok((end - OffsetDateTime::now_utc().unix_timestamp()).div_euclid(86_400))
}

fn set_validity(params: &mut CertificateParams, days: i64) {
    let now = OffsetDateTime::now_utc();
    params.not_before = now - SKEW;
    params.not_after = now + Duration::days(days);
}

fn invalid(name: &str, reason: impl std::fmt::Display) -> PkiError {
    PkiError::Invalid {
        name: name.to_owned(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_certificate_is_kept_until_its_names_change() {
        let dir = tempfile::tempdir().unwrap();
        let store = CertificateStore::new(dir.path());
        let ca = Ca::load_or_create(&store, "ca").unwrap();
        let mut leaf = Leaf::server(
            "registry",
            vec!["registry.example".to_owned(), "10.0.0.1".to_owned()],
        );
        let first = ca.issue(&store, "registry", &leaf).unwrap();
        let again = Ca::load_or_create(&store, "ca").unwrap();
        let second = again.issue(&store, "registry", &leaf).unwrap();
        assert_eq!(first.certificate, second.certificate);
        leaf.names.pop();
        let third = again.issue(&store, "registry", &leaf).unwrap();
        assert_ne!(first.certificate, third.certificate);
    }

    #[test]
    fn certificate_is_signed_by_the_ca() {
        let dir = tempfile::tempdir().unwrap();
        let store = CertificateStore::new(dir.path());
        let ca = Ca::load_or_create(&store, "ca").unwrap();
        let leaf = ca
            .issue(
                &store,
                "registry",
                &Leaf::server("registry", vec!["registry.example".to_owned()]),
            )
            .unwrap();
        let ca_der = pem_content("ca", ca.certificate()).unwrap();
        let leaf_der = pem_content("leaf", &leaf.certificate).unwrap();
        let (_, ca_cert) = x509_parser::parse_x509_certificate(&ca_der).unwrap();
        let (_, leaf_cert) = x509_parser::parse_x509_certificate(&leaf_der).unwrap();
        assert_eq!(leaf_cert.issuer(), ca_cert.subject());
        assert!(leaf_cert.subject_alternative_name().unwrap().is_some());
        assert!((360..=365).contains(&days_left("leaf", &leaf.certificate).unwrap()));
        assert!(
            public_key_pin(ca.certificate())
                .unwrap()
                .starts_with("sha256:")
        );
    }

    /// A CA of a running cluster, whose certificate and key must survive.
    fn store_with_ca() -> (tempfile::TempDir, CertificateStore, Pair) {
        let dir = tempfile::tempdir().unwrap();
        let store = CertificateStore::new(dir.path());
        let pair = Ca::load_or_create(&store, "ca").unwrap().pair().unwrap();
        (dir, store, pair)
    }

    #[test]
    fn ca_whose_key_is_elsewhere_is_kept_and_its_certificates_are_used() {
        let (dir, store, pair) = store_with_ca();
        let leaf = Leaf::client("admin", None);
        let ca = Ca::load_or_create(&store, "ca").unwrap();
        let issued = ca.issue(&store, "admin", &leaf).unwrap();
        std::fs::remove_file(dir.path().join("ca.key")).unwrap();
        let ca = Ca::load_or_create(&store, "ca").unwrap();
        assert_eq!(ca.certificate(), pair.certificate);
        let again = ca.issue(&store, "admin", &leaf).unwrap();
        assert_eq!(again.certificate, issued.certificate);
        let errors = [
            ca.issue(&store, "other", &leaf).err().unwrap().to_string(),
            ca.pair().err().unwrap().to_string(),
        ];
        let place = dir.path().display().to_string();
        insta::assert_snapshot!(errors.join("\n").replace(&place, "[dir]"), @"
        cannot issue the certificate other: [dir]/ca.key does not exist, but the certificate of this CA does
        hint: put the key back for this command: kubexm never creates a CA where one exists
        cannot write the key of the CA to the hosts: [dir]/ca.key does not exist, but the certificate of this CA does
        hint: put the key back for this command: kubexm never creates a CA where one exists
        ");
        assert!(!dir.path().join("ca.key").exists());
        let certificate = std::fs::read_to_string(dir.path().join("ca.crt")).unwrap();
        assert_eq!(certificate, pair.certificate);
    }

    #[test]
    fn key_of_another_ca_is_refused() {
        let (dir, store, _) = store_with_ca();
        let (other, ..) = store_with_ca();
        std::fs::copy(other.path().join("ca.key"), dir.path().join("ca.key")).unwrap();
        let error = Ca::load_or_create(&store, "ca").err().unwrap();
        insta::assert_snapshot!(error, @"
        certificate or key ca: the key belongs to another certificate
        hint: restore both files from the same backup
        ");
    }

    /// A creation writes the key first.
    #[test]
    fn key_of_an_interrupted_creation_is_not_replaced() {
        let (dir, store, pair) = store_with_ca();
        std::fs::remove_file(dir.path().join("ca.crt")).unwrap();
        let ca = Ca::load_or_create(&store, "ca").unwrap();
        assert_eq!(ca.pair().unwrap().key, pair.key);
        let key = std::fs::read_to_string(dir.path().join("ca.key")).unwrap();
        assert_eq!(key, pair.key);
    }

    fn identity() -> KeyIdentity {
        let identity = age::x25519::Identity::generate();
        let text = age::secrecy::ExposeSecret::expose_secret(&identity.to_string()).to_owned();
        KeyIdentity::parse(&format!("# created: today\n# public key: age1\n{text}\n")).unwrap()
    }

    #[test]
    fn key_of_a_ca_is_encrypted_and_needed_only_to_sign() {
        let (dir, store, pair) = store_with_ca();
        let identity = identity();
        let encrypted = store.clone().encrypted(Some(identity.clone()));
        let ca = Ca::load_or_create(&encrypted, "ca").unwrap();
        assert_eq!(ca.pair().unwrap().key, pair.key);
        assert!(!dir.path().join("ca.key").exists());
        let content = std::fs::read(dir.path().join("ca.key.age")).unwrap();
        assert!(content.starts_with(b"age-encryption.org/v1\n"));
        // With the identity, all is as before.
        let leaf = Leaf::client("admin", None);
        let ca = Ca::load_or_create(&encrypted, "ca").unwrap();
        let issued = ca.issue(&encrypted, "admin", &leaf).unwrap();
        assert_eq!(ca.certificate(), pair.certificate);
        // Without it, what exists is used.
        let ca = Ca::load_or_create(&store, "ca").unwrap();
        let again = ca.issue(&store, "admin", &leaf).unwrap();
        assert_eq!(again.certificate, issued.certificate);
        let other = super::tests::identity();
        let wrong = Ca::load_or_create(&store.clone().encrypted(Some(other)), "ca");
        let errors = [
            ca.issue(&store, "other", &leaf).err().unwrap().to_string(),
            wrong.err().unwrap().to_string(),
        ];
        let place = dir.path().display().to_string();
        insta::assert_snapshot!(errors.join("\n").replace(&place, "[dir]"), @"
        cannot issue the certificate other: [dir]/ca.key.age is encrypted
        hint: pass the identity file with which it was encrypted with --ca-identity
        certificate or key ca: cannot decrypt the key: No matching keys found
        hint: pass the identity file with which the key was encrypted
        ");
    }

    #[test]
    fn key_of_a_new_ca_is_never_in_clear_text() {
        let dir = tempfile::tempdir().unwrap();
        let store = CertificateStore::new(dir.path()).encrypted(Some(identity()));
        let key = Ca::load_or_create(&store, "ca")
            .unwrap()
            .pair()
            .unwrap()
            .key;
        let again = Ca::load_or_create(&store, "ca").unwrap();
        assert_eq!(again.pair().unwrap().key, key);
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let content = std::fs::read(entry.unwrap().path()).unwrap();
            assert!(!String::from_utf8_lossy(&content).contains("PRIVATE KEY"));
        }
        // Its certificate is lost: the key is not replaced.
        std::fs::remove_file(dir.path().join("ca.crt")).unwrap();
        let error = Ca::load_or_create(&CertificateStore::new(dir.path()), "ca");
        assert!(matches!(error, Err(PkiError::EncryptedKey { .. })));
        assert!(!dir.path().join("ca.key").exists());
    }

    #[test]
    fn identity_file_is_one_identity() {
        for wrong in ["", "# nothing", "AGE-SECRET-KEY-1", "a\nb", "age1public"] {
            assert!(KeyIdentity::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn fingerprints_are_those_of_the_files() {
        let (_dir, store, pair) = store_with_ca();
        let expected = kubexm_types::authority::fingerprints(&pair.certificate);
        assert_eq!(
            ca_fingerprint(&store, "ca").unwrap(),
            expected.first().copied()
        );
        assert_eq!(ca_fingerprint(&store, "none").unwrap(), None);
        let key = signing_key(&store, "sa").unwrap();
        let expected = kubexm_types::authority::fingerprints(&key.public);
        assert_eq!(
            key_fingerprint(&store, "sa").unwrap(),
            expected.first().copied()
        );
    }

    /// `plan --diff` reads the certificates of a cluster and must not write any.
    #[test]
    fn read_only_store_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let store = CertificateStore::new(dir.path());
        let leaf = Leaf::server("registry", vec!["registry.example".to_owned()]);
        let ca = Ca::load_or_create(&store, "ca").unwrap();
        let kept = ca.issue(&store, "registry", &leaf).unwrap();
        let files = || {
            let entries = std::fs::read_dir(dir.path()).unwrap();
            let mut files: Vec<_> = entries
                .map(|entry| entry.unwrap().path())
                .map(|path| (path.clone(), std::fs::read(path).unwrap()))
                .collect();
            files.sort();
            files
        };
        let before = files();
        let store = CertificateStore::read_only(dir.path());
        let ca = Ca::load_or_create(&store, "ca").unwrap();
        let loaded = ca.issue(&store, "registry", &leaf).unwrap();
        assert_eq!(loaded.certificate, kept.certificate);
        let other = Leaf::server("registry", vec!["other.example".to_owned()]);
        let renewed = ca.issue(&store, "registry", &other).unwrap();
        assert_ne!(renewed.certificate, kept.certificate);
        ca.issue(&store, "new", &leaf).unwrap();
        Ca::load_or_create(&store, "new-ca").unwrap();
        signing_key(&store, "sa").unwrap();
        Ca::load_or_create(&store.subdirectory("kubernetes"), "ca").unwrap();
        assert_eq!(files(), before);
    }
}

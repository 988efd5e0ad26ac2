//! kubexm's own CA and the certificates that it signs; touches no host.

pub mod kubernetes;
pub mod request;

use std::net::IpAddr;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use time::{Duration, OffsetDateTime};

use kubexm_types::{Digest, write_atomic};

/// Why a certificate cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file of the PKI cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// A certificate or key is wrong.
    #[error("{what}: {reason}")]
    Wrong {
        /// Which.
        what: String,
        /// What is wrong.
        reason: String,
    },
}

/// Ten years, as kubeadm's CA.
const CA_DAYS: i64 = 3650;
/// One year, as kubeadm's certificates.
const LEAF_DAYS: i64 = 365;
/// A certificate with less time left is made anew.
const RENEW_DAYS: i64 = 30;
/// Hosts whose clocks are a little behind take a new certificate too.
const SKEW: Duration = Duration::hours(1);

/// A certificate with its key, both PEM. The key is secret: no `Debug` of it.
#[derive(Clone)]
pub struct Pair {
    /// Certificate.
    pub certificate: String,
    /// Private key.
    pub key: String,
}

/// A key that signs no certificates but texts of its own, PEM. The private half is secret.
#[derive(Clone)]
pub struct SigningKey {
    /// What others verify by.
    pub public: String,
    /// What signs.
    pub private: String,
}

/// Loads the key pair `name` from a folder, or makes it there.
fn signing_key(folder: &Path, name: &str) -> Result<SigningKey, PkiError> {
    let of = |key: KeyPair| SigningKey {
        public: key.public_key_pem(),
        private: key.serialize_pem(),
    };
    if let Some(text) = read(folder, &format!("{name}.key"))? {
        let key = KeyPair::from_pem(&text).map_err(|error| wrong(name, error))?;
        return Ok(of(key));
    }
    let key = of(KeyPair::generate().map_err(|error| wrong(name, error))?);
    make_folder(folder)?;
    write(&folder.join(format!("{name}.key")), &key.private)?;
    Ok(key)
}

/// A CA whose key lies in a folder of this machine.
pub struct Ca {
    pair: Pair,
}

impl Ca {
    /// Loads the CA `name` from a folder, or makes it there.
    pub fn load_or_create(folder: &Path, name: &str) -> Result<Self, PkiError> {
        if let Some(pair) = load(folder, name)? {
            if days_left(name, &pair.certificate)? < 0 {
                return Err(wrong(
                    name,
                    "the CA has expired; remove it to make a new one",
                ));
            }
            return Ok(Self { pair });
        }
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        set_validity(&mut params, CA_DAYS);
        let key = KeyPair::generate().map_err(|error| wrong(name, error))?;
        let certificate = params
            .self_signed(&key)
            .map_err(|error| wrong(name, error))?;
        let pair = Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        };
        save(folder, name, &pair)?;
        Ok(Self { pair })
    }

    /// The CA with its key, for those who must sign themselves. Secret.
    pub fn pair(&self) -> &Pair {
        &self.pair
    }

    /// The CA's certificate, PEM.
    pub fn certificate(&self) -> &str {
        &self.pair.certificate
    }

    /// Loads the certificate `name` from a folder; makes a new one where there is none, it is for
    /// something else, of another CA, or about to expire.
    pub fn issue(&self, folder: &Path, name: &str, leaf: &Leaf) -> Result<Pair, PkiError> {
        let mark = Digest::of(format!("{}{leaf:?}", self.pair.certificate).as_bytes());
        let mark_path = folder.join(format!("{name}.for"));
        let same = std::fs::read_to_string(&mark_path).is_ok_and(|text| text == mark.hex());
        if let Some(pair) = load(folder, name)?.filter(|_| same)
            && days_left(name, &pair.certificate)? >= RENEW_DAYS
        {
            return Ok(pair);
        }
        let pair = self.sign(name, leaf)?;
        save(folder, name, &pair)?;
        write(&mark_path, &mark.hex())?;
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
                Err(_) => SanType::DnsName(name.clone().try_into().map_err(|e| wrong(name, e))?),
            };
            params.subject_alt_names.push(san);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = leaf.usage.extended();
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, LEAF_DAYS);
        let ca_key = KeyPair::from_pem(&self.pair.key).map_err(|error| wrong("CA key", error))?;
        let issuer = Issuer::from_ca_cert_pem(&self.pair.certificate, ca_key)
            .map_err(|error| wrong("CA certificate", error))?;
        let key = KeyPair::generate().map_err(|error| wrong(name, error))?;
        let certificate = params
            .signed_by(&key, &issuer)
            .map_err(|error| wrong(name, error))?;
        Ok(Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// Whom a certificate is for, and for what.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// Common name: Kubernetes' user.
    pub common_name: String,
    /// Organization: Kubernetes' group.
    pub organization: Option<String>,
    /// DNS names and addresses.
    pub names: Vec<String>,
    /// What for.
    pub usage: Usage,
}

/// What a certificate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// To be connected to.
    Server,
    /// To connect to others.
    Client,
    /// Both, as members of an etcd need.
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
    /// A server's certificate.
    pub fn server(common_name: &str, names: Vec<String>) -> Self {
        Self {
            common_name: common_name.to_owned(),
            organization: None,
            names,
            usage: Usage::Server,
        }
    }

    /// A user's certificate.
    pub fn client(user: &str, group: Option<&str>) -> Self {
        Self {
            common_name: user.to_owned(),
            organization: group.map(str::to_owned),
            names: Vec::new(),
            usage: Usage::Client,
        }
    }
}

/// kubeadm's pin of a CA: the digest of its public key
/// (<https://kubernetes.io/docs/reference/setup-tools/kubeadm/kubeadm-join/#token-based-discovery-with-ca-pinning>).
pub fn public_key_pin(certificate: &str) -> Result<String, PkiError> {
    let der = pem_content("CA certificate", certificate)?;
    let (_, parsed) = x509_parser::parse_x509_certificate(&der)
        .map_err(|error| wrong("CA certificate", error))?;
    Ok(Digest::of(parsed.tbs_certificate.subject_pki.raw).to_string())
}

fn pem_content(what: &str, text: &str) -> Result<Vec<u8>, PkiError> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(text.as_bytes()).map_err(|e| wrong(what, e))?;
    Ok(pem.contents)
}

fn days_left(what: &str, certificate: &str) -> Result<i64, PkiError> {
    let der = pem_content(what, certificate)?;
    let (_, parsed) =
        x509_parser::parse_x509_certificate(&der).map_err(|error| wrong(what, error))?;
    let end = parsed.validity().not_after.timestamp();
    Ok((end - OffsetDateTime::now_utc().unix_timestamp()).div_euclid(86_400))
}

fn set_validity(params: &mut CertificateParams, days: i64) {
    let now = OffsetDateTime::now_utc();
    params.not_before = now - SKEW;
    params.not_after = now + Duration::days(days);
}

fn wrong(what: &str, reason: impl std::fmt::Display) -> PkiError {
    PkiError::Wrong {
        what: what.to_owned(),
        reason: reason.to_string(),
    }
}

fn load(folder: &Path, name: &str) -> Result<Option<Pair>, PkiError> {
    let certificate = read(folder, &format!("{name}.crt"))?;
    let key = read(folder, &format!("{name}.key"))?;
    Ok(certificate
        .zip(key)
        .map(|(certificate, key)| Pair { certificate, key }))
}

fn read(folder: &Path, file: &str) -> Result<Option<String>, PkiError> {
    let path = folder.join(file);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(PkiError::Io {
            path: path.display().to_string(),
            source,
        }),
    }
}

fn make_folder(folder: &Path) -> Result<(), PkiError> {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = std::fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(folder);
    made.map_err(|source| PkiError::Io {
        path: folder.display().to_string(),
        source,
    })
}

fn save(folder: &Path, name: &str, pair: &Pair) -> Result<(), PkiError> {
    make_folder(folder)?;
    // The certificate last: a pair is there only when both are.
    write(&folder.join(format!("{name}.key")), &pair.key)?;
    write(&folder.join(format!("{name}.crt")), &pair.certificate)
}

fn write(path: &Path, text: &str) -> Result<(), PkiError> {
    write_atomic(path, text.as_bytes(), 0o600).map_err(|source| PkiError::Io {
        path: path.display().to_string(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_certificate_is_kept_until_its_names_change() {
        let folder = tempfile::tempdir().unwrap();
        let ca = Ca::load_or_create(folder.path(), "ca").unwrap();
        let mut leaf = Leaf::server(
            "registry",
            vec!["registry.example".to_owned(), "10.0.0.1".to_owned()],
        );
        let first = ca.issue(folder.path(), "registry", &leaf).unwrap();
        let again = Ca::load_or_create(folder.path(), "ca").unwrap();
        let second = again.issue(folder.path(), "registry", &leaf).unwrap();
        assert_eq!(first.certificate, second.certificate);
        leaf.names.pop();
        let third = again.issue(folder.path(), "registry", &leaf).unwrap();
        assert_ne!(first.certificate, third.certificate);
    }

    #[test]
    fn the_ca_signed_it() {
        let folder = tempfile::tempdir().unwrap();
        let ca = Ca::load_or_create(folder.path(), "ca").unwrap();
        let leaf = ca
            .issue(
                folder.path(),
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
}

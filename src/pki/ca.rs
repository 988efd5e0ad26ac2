//! Certificate authorities, and the certificates that they issue.

use std::net::IpAddr;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PublicKeyData, SanType,
};
use time::{Duration, OffsetDateTime};

use crate::certificate::Certificate;
use crate::error::{PkiError, invalid};
use crate::fingerprint::pem_content;
use crate::leaf::Leaf;
use crate::pair::{Pair, new_key};
use crate::rotation;
use crate::store::{CertificateStore, StoredKey};
use kubexm_config::cluster::Validity;
use kubexm_types::Digest;

/// kubexm renews a certificate that is valid for less than this number of days, or for less than a third of its whole
/// validity.
const RENEW_DAYS: i64 = 30;
/// Time between the start of the validity and the present, for hosts with slow clocks.
const SKEW: Duration = Duration::hours(1);

/// A certificate authority. Its key may be elsewhere, as long as nothing needs to be signed.
pub struct Ca {
    certificate: String,
    /// The certificates that programs trust: `certificate`, and in a rotation the other one.
    trusted: String,
    key: StoredKey,
    /// A key of no CA, for the certificates that a read-only store without the key issues; `None` if `key` signs.
    substitute: Option<String>,
    /// The path of the key's file without encryption, for messages.
    key_path: String,
}

impl Ca {
    /// Loads the CA `name` from the store. Creates it if the store has neither a certificate nor a key of this
    /// name; it never replaces one of them.
    ///
    /// A read-only store without the key issues certificates with a substitute in memory, so that the result has
    /// certificates to compare.
    ///
    /// # Errors
    /// The CA has expired, its key belongs to another certificate, or its files cannot be read or written.
    pub fn load_or_create(store: &CertificateStore, name: &str) -> Result<Self, PkiError> {
        let key = store.read_ca_key(name)?;
        let key_path = store.path(&format!("{name}.key")).display().to_string();
        let Some(certificate) = store.read(&format!("{name}.crt"))? else {
            return Self::create(store, name, key, key_path);
        };
        if Certificate::first(name, &certificate)?.days_left() < 0 {
            return Err(invalid(name, "the CA has expired")
                .hint("reset the cluster, and install it again with a new CA"));
        }
        let (key, substitute) = match key {
            StoredKey::Readable(key) => {
                let key = of_certificate(name, &certificate, key)?;
                (StoredKey::Readable(key), None)
            }
            other if store.is_read_only() => (other, Some(new_key(name)?.serialize_pem())),
            other => (other, None),
        };
        let trusted = rotation::trusted(store, name, &certificate)?;
        Ok(Self {
            certificate,
            trusted,
            key,
            substitute,
            key_path,
        })
    }

    /// Writes the CA `name` of another program, and returns it; `None` if the store has a certificate of this name, or if `given` has no
    /// CA.
    ///
    /// # Errors
    /// Files cannot be read or written, or as `given`.
    pub(crate) fn take(
        store: &CertificateStore,
        name: &str,
        given: impl FnOnce() -> Result<Option<Pair>, PkiError>,
    ) -> Result<Option<Self>, PkiError> {
        if store.read(&format!("{name}.crt"))?.is_some() {
            return Ok(None);
        }
        let Some(given) = given()? else {
            return Ok(None);
        };
        let key_path = store.path(&format!("{name}.key")).display().to_string();
        let trusted = rotation::trusted(store, name, &given.certificate)?;
        // The certificate is written last, so that it never exists without its key.
        store.write_ca_key(name, &given.key)?;
        store.write(&format!("{name}.crt"), &given.certificate)?;
        Ok(Some(Self {
            trusted,
            ..Self::of(given, key_path)
        }))
    }

    fn of(pair: Pair, key_path: String) -> Self {
        Self {
            trusted: pair.certificate.clone(),
            certificate: pair.certificate,
            key: StoredKey::Readable(pair.key),
            substitute: None,
            key_path,
        }
    }

    /// Fails if kubexm cannot sign for a CA of another program, or if programs would not find the signer of what it signs.
    pub(crate) fn prove(pair: &Pair, name: &str) -> Result<(), PkiError> {
        let ca = Self::of(pair.clone(), name.to_owned());
        let signed = ca.sign(name, &Leaf::client(name, None), 1);
        let signed = signed.map_err(|error| {
            error.hint(
                "kubexm needs the key in PKCS #8, and a subject with one value in each part: `openssl pkcs8 -topk8 -nocrypt -in KEY -out NEW` \
                 converts a key",
            )
        })?;
        let leaf = Certificate::first(name, &signed.certificate)?;
        if leaf.is_signed_by(&Certificate::first(name, &pair.certificate)?) {
            Ok(())
        } else {
            Err(invalid(name, "kubexm cannot write the subject of this CA").hint(
                "issue a CA whose subject has each attribute once, as UTF8String, PrintableString or IA5String; kubeadm accepts any subject",
            ))
        }
    }

    /// Creates a CA. `key` is the key of a creation that was interrupted before it wrote the certificate.
    fn create(
        store: &CertificateStore,
        name: &str,
        key: StoredKey,
        key_path: String,
    ) -> Result<Self, PkiError> {
        Self::create_for(store, name, name, key, key_path)
    }

    /// Creates a CA whose files have another name than its subject.
    fn create_for(
        store: &CertificateStore,
        name: &str,
        subject: &str,
        key: StoredKey,
        key_path: String,
    ) -> Result<Self, PkiError> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, subject);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        set_validity(&mut params, store.validity().ca_days);
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
        Ok(Self::of(Pair { certificate, key }, key_path))
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

    /// Loads the CA `name`, or creates it with a subject of its own.
    pub(crate) fn load_or_create_for(
        store: &CertificateStore,
        name: &str,
        subject: &str,
    ) -> Result<(), PkiError> {
        if store.read(&format!("{name}.crt"))?.is_some() {
            return Ok(());
        }
        let key = store.read_ca_key(name)?;
        let key_path = store.path(&format!("{name}.key")).display().to_string();
        Self::create_for(store, name, subject, key, key_path).map(drop)
    }

    /// Returns the certificates that programs trust, PEM: the CA's own one, and in a rotation the next or the former one.
    pub fn trusted(&self) -> &str {
        &self.trusted
    }

    /// Returns the CA's certificate, PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Returns the key. Secret. `purpose` is for the error.
    ///
    /// # Errors
    /// The key is not in the store, or is encrypted.
    pub(crate) fn key(&self, purpose: &str) -> Result<&str, PkiError> {
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
    /// another subject, validity or CA, is about to expire, is not valid yet, or is older than a
    /// [renewal](CertificateStore::renewing). Only then the CA's key is needed.
    ///
    /// # Errors
    /// Files cannot be read or written, the CA's key is needed and is not there, or `leaf` is invalid.
    pub fn issue(
        &self,
        store: &CertificateStore,
        name: &str,
        leaf: &Leaf,
    ) -> Result<Pair, PkiError> {
        let days = store.validity().days;
        let mut purpose = format!("{}{leaf:?}", self.certificate);
        if days != Validity::default().days {
            purpose.push_str(&format!(" for {days} days"));
        }
        let purpose = Digest::of(purpose.as_bytes()).hex();
        let purpose_file = format!("{name}.for");
        let same_purpose = store
            .read(&purpose_file)?
            .is_some_and(|text| text == purpose);
        if let Some(pair) = store.load(name)?.filter(|_| same_purpose) {
            let found = Certificate::first(name, &pair.certificate)?;
            // The clock of this machine was ahead when the certificate was issued. If the CA is not valid yet, either, the
            // clock is behind now, and everything that it dates would have expired once it is right.
            let now = OffsetDateTime::now_utc();
            let is_of_future =
                found.begins > now && Certificate::first(name, &self.certificate)?.begins <= now;
            if found.days_left() >= RENEW_DAYS.min(i64::from(days) / 3)
                && !store.renews(name, found.begins + SKEW)
                && !is_of_future
            {
                return Ok(pair);
            }
        }
        let pair = self.sign(name, leaf, days)?;
        store.save(name, &pair)?;
        store.write(&purpose_file, &purpose)?;
        Ok(pair)
    }

    fn sign(&self, name: &str, leaf: &Leaf, days: u16) -> Result<Pair, PkiError> {
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
        set_validity(&mut params, days);
        let ca_key = match &self.substitute {
            Some(substitute) => substitute,
            None => self.key(&format!("issue the certificate {name}"))?,
        };
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

/// Returns the key of a certificate.
///
/// # Errors
/// The key belongs to another certificate.
fn of_certificate(name: &str, certificate: &str, key: String) -> Result<String, PkiError> {
    let pair = KeyPair::from_pem(&key).map_err(|error| invalid(name, error))?;
    let der = pem_content(name, certificate)?;
    let (_, parsed) =
        x509_parser::parse_x509_certificate(&der).map_err(|error| invalid(name, error))?;
    if parsed.tbs_certificate.subject_pki.raw == pair.subject_public_key_info() {
        Ok(key)
    } else {
        Err(invalid(name, "the key belongs to another certificate")
            .hint("restore both files from the same backup"))
    }
}

fn set_validity(params: &mut CertificateParams, days: u16) {
    let now = OffsetDateTime::now_utc();
    params.not_before = now - SKEW;
    params.not_after = now + Duration::days(i64::from(days));
}

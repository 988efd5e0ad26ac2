//! What a certificate states, and whether a CA signed it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use x509_parser::certificate::X509Certificate;
use x509_parser::error::X509Error;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::Pem;
use x509_parser::x509::X509Name;

use crate::error::{PkiError, invalid};

/// The seconds of a day.
const DAY: i64 = 86_400;

/// A certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The common name of the subject, or the whole subject if it has none.
    pub subject: String,
    /// The common name of the issuer, or the whole issuer if it has none.
    pub issuer: String,
    /// The serial number, hexadecimal.
    pub serial: String,
    /// DNS names and addresses.
    pub names: BTreeSet<String>,
    /// Whether it is a CA.
    pub is_ca: bool,
    /// The beginning of the validity.
    pub begins: OffsetDateTime,
    /// The end of the validity.
    pub ends: OffsetDateTime,
    der: Vec<u8>,
}

impl Certificate {
    /// Parses all certificates in a text in PEM; there is at least one.
    ///
    /// # Errors
    /// The text has no certificate, or a damaged one. `what` is the name of the text in the error.
    pub fn parse_all(what: &str, text: &str) -> Result<Vec<Self>, PkiError> {
        let found: Vec<Self> = Self::each(what, text).collect::<Result<_, _>>()?;
        if found.is_empty() {
            Err(no_certificate(what))
        } else {
            Ok(found)
        }
    }

    /// Parses the first certificate in a text in PEM.
    ///
    /// # Errors
    /// The text has no certificate, or the first one is damaged. `what` is the name of the text in the error.
    pub fn first(what: &str, text: &str) -> Result<Self, PkiError> {
        let first = Self::each(what, text).next();
        first.unwrap_or_else(|| Err(no_certificate(what)))
    }

    fn each(what: &str, text: &str) -> impl Iterator<Item = Result<Self, PkiError>> {
        Pem::iter_from_buffer(text.as_bytes()).filter_map(move |block| match block {
            Ok(block) if block.label == "CERTIFICATE" => Some(Self::parse(what, block.contents)),
            Ok(_) => None,
            Err(error) => Some(Err(invalid(what, error))),
        })
    }

    fn parse(what: &str, der: Vec<u8>) -> Result<Self, PkiError> {
        let certificate = {
            let (_, parsed) =
                x509_parser::parse_x509_certificate(&der).map_err(|error| invalid(what, error))?;
            let validity = parsed.validity();
            Self {
                subject: shown(parsed.subject()),
                issuer: shown(parsed.issuer()),
                serial: format!("{:x}", parsed.tbs_certificate.serial),
                names: names_of(what, &parsed)?,
                is_ca: parsed.is_ca(),
                begins: validity.not_before.to_datetime(),
                ends: validity.not_after.to_datetime(),
                der: Vec::new(),
            }
        };
        Ok(Self { der, ..certificate })
    }

    /// Returns the end of the validity, as in `2027-01-31T12:00:00Z`.
    pub fn expires(&self) -> String {
        // Certificates of RFC 5280 end in the year 9999 at the latest.
        let end = self.ends.format(&Rfc3339);
        end.unwrap_or_else(|_| "9999-12-31T23:59:59Z".to_owned())
    }

    /// Returns the number of whole days until the certificate expires; negative if it has expired.
    pub fn days_left(&self) -> i64 {
        let left = self.ends.unix_timestamp() - OffsetDateTime::now_utc().unix_timestamp();
        left.div_euclid(DAY)
    }

    /// Returns how long it is valid from its beginning to its end, in days, rounded to the nearest day.
    pub fn days_valid(&self) -> i64 {
        // Certificates begin a little before they are issued, because clocks differ.
        let seconds = self.ends.unix_timestamp() - self.begins.unix_timestamp();
        (seconds + DAY / 2).div_euclid(DAY)
    }

    /// Returns whether it is a CA, and may sign certificates: it has keyCertSign if it states key usages.
    pub fn can_sign(&self) -> bool {
        let parsed = x509_parser::parse_x509_certificate(&self.der);
        let usage = parsed.as_ref().map(|(_, parsed)| parsed.key_usage());
        let may_sign = match usage {
            Ok(Ok(Some(usage))) => usage.value.key_cert_sign(),
            Ok(Ok(None)) => true,
            Ok(Err(_)) | Err(_) => false,
        };
        self.is_ca && may_sign
    }

    /// Returns whether a CA with this certificate signed it. If kubexm does not know the algorithm of the signature, only
    /// the names decide.
    pub fn is_signed_by(&self, ca: &Self) -> bool {
        let parsed = |der| x509_parser::parse_x509_certificate(der).map(|(_, parsed)| parsed);
        let (Ok(own), Ok(ca)) = (parsed(&self.der), parsed(&ca.der)) else {
            return false;
        };
        own.issuer().as_raw() == ca.subject().as_raw() && has_signature_of(&own, &ca)
    }
}

/// Returns whether two texts in PEM have the same certificates, in any order. One that is damaged is like no other.
pub fn same_certificates(one: &str, other: &str) -> bool {
    let all = |text: &str| -> Option<BTreeSet<Vec<u8>>> {
        let blocks = Pem::iter_from_buffer(text.as_bytes());
        blocks.map(|block| Some(block.ok()?.contents)).collect()
    };
    all(one).is_some_and(|own| all(other) == Some(own))
}

fn no_certificate(what: &str) -> PkiError {
    invalid(what, "it is not a certificate in PEM")
}

/// Returns the DNS names and addresses of a parsed certificate.
fn names_of(what: &str, parsed: &X509Certificate<'_>) -> Result<BTreeSet<String>, PkiError> {
    let names = parsed
        .subject_alternative_name()
        .map_err(|error| invalid(what, error))?;
    let names = names
        .into_iter()
        .flat_map(|names| &names.value.general_names);
    let text = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => Some(IpAddr::from(<[u8; 4]>::try_from(*bytes).ok()?).to_string()),
            16 => Some(IpAddr::from(<[u8; 16]>::try_from(*bytes).ok()?).to_string()),
            _ => None,
        },
        _ => None,
    };
    Ok(names.filter_map(text).collect())
}

fn has_signature_of(own: &X509Certificate<'_>, ca: &X509Certificate<'_>) -> bool {
    match own.verify_signature(Some(ca.public_key())) {
        Ok(()) | Err(X509Error::SignatureUnsupportedAlgorithm) => true,
        Err(_) => false,
    }
}

fn shown(name: &X509Name<'_>) -> String {
    let common = name.iter_common_name().next();
    common
        .and_then(|name| name.as_str().ok())
        .map_or_else(|| name.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType};

    use super::*;
    use crate::{Ca, CertificateStore, Leaf};

    #[test]
    fn certificate_states_names_issuer_and_end() {
        let dir = tempfile::tempdir().unwrap();
        let store = CertificateStore::new(dir.path());
        let ca = Ca::load_or_create(&store, "one").unwrap();
        let leaf = Leaf::server(
            "server",
            vec!["a.example".to_owned(), "192.0.2.1".to_owned()],
        );
        let text = ca.issue(&store, "leaf", &leaf).unwrap().certificate;
        let both = format!("{text}{}", ca.certificate());
        let [leaf, issuer] = &Certificate::parse_all("leaf", &both).unwrap()[..] else {
            panic!("two certificates");
        };
        assert_eq!(
            (leaf.subject.as_str(), leaf.issuer.as_str()),
            ("server", "one")
        );
        assert_eq!(
            leaf.names.iter().collect::<Vec<_>>(),
            ["192.0.2.1", "a.example"]
        );
        assert!(!leaf.is_ca && issuer.is_ca);
        // It has 365 days left in the second in which it is issued.
        assert!((364..=365).contains(&leaf.days_left()) && leaf.days_valid() == 365);
        assert!(leaf.expires().ends_with('Z') && leaf.expires().len() == 20);
        assert_eq!(&Certificate::first("leaf", &both).unwrap(), leaf);
        assert!(leaf.is_signed_by(issuer) && issuer.is_signed_by(issuer));
        assert!(!issuer.is_signed_by(leaf));
    }

    #[test]
    fn another_ca_of_the_same_name_did_not_sign_it() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let [first, second] = [first, second].map(|dir| {
            let store = CertificateStore::new(dir.path());
            let ca = Ca::load_or_create(&store, "same").unwrap();
            let leaf = ca.issue(&store, "leaf", &Leaf::client("user", None));
            let parse = |text: &str| Certificate::first("x", text).unwrap();
            (parse(ca.certificate()), parse(&leaf.unwrap().certificate))
        });
        assert!(first.1.is_signed_by(&first.0));
        assert!(!first.1.is_signed_by(&second.0));
    }

    #[test]
    fn same_certificates_can_have_another_order() {
        let block = |text: &str| {
            format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
        };
        let [one, other] = ["QUFB", "QUJD"].map(block);
        assert!(same_certificates(
            &format!("{one}{other}"),
            &format!("# ca\n{other}\n{one}{other}\n\n")
        ));
        for differs in [
            String::new(),
            other.clone(),
            format!("{one}{other}"),
            block("!"),
        ] {
            assert!(
                !same_certificates(&one, &differs) && !same_certificates(&differs, &one),
                "{differs}"
            );
        }
        assert!(!same_certificates(&block("!"), &block("!")));
    }

    #[test]
    fn text_without_a_certificate_is_an_error() {
        for text in [
            "",
            "nothing",
            "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n",
        ] {
            let error = Certificate::parse_all("/etc/x.crt", text).unwrap_err();
            assert!(error.to_string().contains("/etc/x.crt"), "{error}");
            let of_first = Certificate::first("/etc/x.crt", text).unwrap_err();
            assert_eq!(of_first.to_string(), error.to_string());
        }
    }

    #[test]
    fn subject_without_a_common_name_is_shown_completely() {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::OrganizationName, "site");
        let key = rcgen::KeyPair::generate().unwrap();
        let text = params.self_signed(&key).unwrap().pem();
        let found = Certificate::first("x", &text).unwrap();
        assert_eq!(found.subject, "O=site");
    }
}

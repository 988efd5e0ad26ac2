//! Checks certificate signing requests against the names that the requestor is entitled to.

use std::net::IpAddr;

use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Name;

use crate::fingerprint::pem_content;

/// The subject and the names that a request may contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entitled {
    /// The only common name.
    pub common_name: String,
    /// The only organization.
    pub organization: String,
    /// The allowed DNS names.
    pub names: Vec<String>,
    /// The allowed addresses.
    pub addresses: Vec<IpAddr>,
}

/// Checks that a request (PKCS#10 in PEM) contains only what its requestor is entitled to.
///
/// # Errors
/// The reason, as the end of a sentence about the request.
pub fn check(pem: &str, entitled: &Entitled) -> Result<(), String> {
    let der = pem_content("request", pem).map_err(|error| error.to_string())?;
    let (rest, request) = X509CertificationRequest::from_der(&der)
        .map_err(|error| format!("is not a certificate signing request: {error}"))?;
    if !rest.is_empty() {
        return Err("has data after its end".to_owned());
    }
    let info = &request.certification_request_info;
    check_subject(&info.subject, entitled)?;
    // Signers differ in how they handle several attributes or extensions, so only one is allowed.
    let [attribute] = info.attributes() else {
        return Err("has attributes other than alternative names".to_owned());
    };
    let ParsedCriAttribute::ExtensionRequest(requested) = attribute.parsed_attribute() else {
        return Err("has attributes other than alternative names".to_owned());
    };
    let [extension] = requested.extensions.as_slice() else {
        return Err("requests extensions other than alternative names".to_owned());
    };
    let ParsedExtension::SubjectAlternativeName(names) = extension.parsed_extension() else {
        return Err("requests extensions other than alternative names".to_owned());
    };
    if names.general_names.is_empty() {
        return Err("has no alternative names".to_owned());
    }
    names
        .general_names
        .iter()
        .try_for_each(|name| check_name(name, entitled))
}

fn check_subject(subject: &X509Name<'_>, entitled: &Entitled) -> Result<(), String> {
    let mut parts: Vec<(String, &str)> = subject
        .iter_attributes()
        .map(|part| {
            (
                part.attr_type().to_id_string(),
                part.as_str().unwrap_or("?"),
            )
        })
        .collect();
    parts.sort();
    // 2.5.4.3 is the common name, 2.5.4.10 the organization (X.520).
    let expected = [
        ("2.5.4.10".to_owned(), entitled.organization.as_str()),
        ("2.5.4.3".to_owned(), entitled.common_name.as_str()),
    ];
    if parts == expected {
        Ok(())
    } else {
        Err(format!("has the subject '{subject}'"))
    }
}

fn check_name(name: &GeneralName<'_>, entitled: &Entitled) -> Result<(), String> {
    let allowed = match name {
        GeneralName::DNSName(name) => entitled.names.iter().any(|own| own == name),
        GeneralName::IPAddress(bytes) => {
            let address = match <[u8; 4]>::try_from(*bytes) {
                Ok(four) => Some(IpAddr::from(four)),
                Err(_) => <[u8; 16]>::try_from(*bytes).ok().map(IpAddr::from),
            };
            address.is_some_and(|address| entitled.addresses.contains(&address))
        }
        _ => false,
    };
    if allowed {
        Ok(())
    } else {
        Err(format!("requests the name {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, SanType};

    fn entitled() -> Entitled {
        Entitled {
            common_name: "system:node:node1".to_owned(),
            organization: "system:nodes".to_owned(),
            names: vec!["node1".to_owned()],
            addresses: vec!["192.0.2.11".parse().unwrap()],
        }
    }

    /// Returns a request of a kubelet with changes.
    fn request(change: impl Fn(&mut CertificateParams)) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::OrganizationName, "system:nodes");
        params
            .distinguished_name
            .push(DnType::CommonName, "system:node:node1");
        params.subject_alt_names = vec![
            SanType::DnsName("node1".try_into().unwrap()),
            SanType::IpAddress("192.0.2.11".parse().unwrap()),
        ];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        params.serialize_request(&key).unwrap().pem().unwrap()
    }

    #[test]
    fn node_may_request_its_own_names() {
        assert_eq!(check(&request(|_| {}), &entitled()), Ok(()));
        let fewer = request(|params| drop(params.subject_alt_names.pop()));
        assert_eq!(check(&fewer, &entitled()), Ok(()));
    }

    #[test]
    fn node_may_not_request_other_names() {
        type Change = fn(&mut CertificateParams);
        let cases: [Change; 7] = [
            |p| {
                p.subject_alt_names
                    .push(SanType::DnsName("node2".try_into().unwrap()))
            },
            |p| {
                p.subject_alt_names
                    .push(SanType::IpAddress("192.0.2.12".parse().unwrap()))
            },
            |p| {
                p.subject_alt_names
                    .push(SanType::URI("spiffe://x".try_into().unwrap()))
            },
            |p| p.subject_alt_names.clear(),
            |p| {
                p.distinguished_name
                    .push(DnType::CommonName, "system:node:node2")
            },
            |p| {
                p.distinguished_name
                    .push(DnType::OrganizationName, "system:masters")
            },
            |p| {
                p.extended_key_usages
                    .push(ExtendedKeyUsagePurpose::ClientAuth)
            },
        ];
        let mut all = String::new();
        for change in cases {
            all += &check(&request(change), &entitled()).unwrap_err();
            all += "\n";
        }
        insta::assert_snapshot!(all, @"
        requests the name DNSName(node2)
        requests the name IPAddress(c0:00:02:0c)
        requests the name URI(spiffe://x)
        has attributes other than alternative names
        has the subject 'O=system:nodes, CN=system:node:node2'
        has the subject 'O=system:masters, CN=system:node:node1'
        requests extensions other than alternative names
        ");
        assert!(check("nothing", &entitled()).is_err());
    }
}

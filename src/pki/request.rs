//! Requests for certificates that others made: what they ask for is held against what they may have.

use std::net::IpAddr;

use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Name;

/// What the server of a request may be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entitled {
    /// Its common name, and no other.
    pub common_name: String,
    /// Its organization, and no other.
    pub organization: String,
    /// DNS names that it may have.
    pub names: Vec<String>,
    /// Addresses that it may have.
    pub addresses: Vec<IpAddr>,
}

/// Whether a request (PEM, PKCS#10) asks for nothing that its server is not entitled to.
///
/// # Errors
/// In words, what it asks for beyond that, or why it cannot be read.
pub fn judge(pem: &str, entitled: &Entitled) -> Result<(), String> {
    let der = super::pem_content("request", pem).map_err(|error| error.to_string())?;
    let (rest, request) = X509CertificationRequest::from_der(&der)
        .map_err(|error| format!("is no request: {error}"))?;
    if !rest.is_empty() {
        return Err("has bytes behind its end".to_owned());
    }
    let info = &request.certification_request_info;
    judge_subject(&info.subject, entitled)?;
    // One attribute with one extension: signers differ in which they take where there are more.
    let [attribute] = info.attributes() else {
        return Err("has other attributes than its names".to_owned());
    };
    let ParsedCriAttribute::ExtensionRequest(requested) = attribute.parsed_attribute() else {
        return Err("has other attributes than its names".to_owned());
    };
    let [extension] = requested.extensions.as_slice() else {
        return Err("asks for other extensions than its names".to_owned());
    };
    let ParsedExtension::SubjectAlternativeName(names) = extension.parsed_extension() else {
        return Err("asks for other extensions than its names".to_owned());
    };
    if names.general_names.is_empty() {
        return Err("names no server".to_owned());
    }
    names
        .general_names
        .iter()
        .try_for_each(|name| judge_name(name, entitled))
}

fn judge_subject(subject: &X509Name<'_>, entitled: &Entitled) -> Result<(), String> {
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
    let wanted = [
        ("2.5.4.10".to_owned(), entitled.organization.as_str()),
        ("2.5.4.3".to_owned(), entitled.common_name.as_str()),
    ];
    match parts == wanted {
        true => Ok(()),
        false => Err(format!("is for the subject '{subject}'")),
    }
}

fn judge_name(name: &GeneralName<'_>, entitled: &Entitled) -> Result<(), String> {
    let fine = match name {
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
    match fine {
        true => Ok(()),
        false => Err(format!("asks for the name {name}")),
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

    /// A request as a kubelet makes it, with changes.
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
    fn a_node_gets_its_own_names() {
        assert_eq!(judge(&request(|_| {}), &entitled()), Ok(()));
        let fewer = request(|params| drop(params.subject_alt_names.pop()));
        assert_eq!(judge(&fewer, &entitled()), Ok(()));
    }

    #[test]
    fn and_nobody_elses() {
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
            all += &judge(&request(change), &entitled()).unwrap_err();
            all += "\n";
        }
        insta::assert_snapshot!(all, @"
        asks for the name DNSName(node2)
        asks for the name IPAddress(c0:00:02:0c)
        asks for the name URI(spiffe://x)
        has other attributes than its names
        is for the subject 'O=system:nodes, CN=system:node:node2'
        is for the subject 'O=system:masters, CN=system:node:node1'
        asks for other extensions than its names
        ");
        assert!(judge("nothing", &entitled()).is_err());
    }
}

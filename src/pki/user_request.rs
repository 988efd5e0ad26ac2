//! Requests for certificates of users, which the cluster's own signer answers.

use rcgen::{CertificateParams, DistinguishedName, DnType};

use crate::error::{PkiError, invalid};
use crate::pair::new_key;

/// A certificate signing request (PKCS#10) and its key. The key is secret, so there is no `Debug`.
pub struct UserRequest {
    /// The request, PEM.
    pub request: String,
    /// The private key, PEM.
    pub key: String,
}

impl UserRequest {
    /// Creates a key, and the request for a client certificate. The common name is the user in Kubernetes, and the
    /// organization is the group
    /// (<https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates>).
    ///
    /// # Errors
    /// No key can be created, or a name cannot be in a certificate.
    pub fn new(user: &str, group: Option<&str>) -> Result<Self, PkiError> {
        let mut subject = DistinguishedName::new();
        subject.push(DnType::CommonName, user);
        if let Some(group) = group {
            subject.push(DnType::OrganizationName, group);
        }
        let mut params = CertificateParams::default();
        params.distinguished_name = subject;
        let key = new_key(user)?;
        let request = params.serialize_request(&key);
        let request = request.and_then(|request| request.pem());
        Ok(Self {
            request: request.map_err(|error| invalid(user, error))?,
            key: key.serialize_pem(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::fingerprint::pem_content;
    use x509_parser::certification_request::X509CertificationRequest;
    use x509_parser::prelude::FromDer;

    fn subject(user: &str, group: Option<&str>) -> String {
        let request = UserRequest::new(user, group).unwrap();
        assert!(request.key.contains("PRIVATE KEY"));
        let der = pem_content("request", &request.request).unwrap();
        let (_, request) = X509CertificationRequest::from_der(&der).unwrap();
        request.certification_request_info.subject.to_string()
    }

    #[test]
    fn request_names_the_user_and_the_group() {
        assert_eq!(subject("anna", Some("developers")), "CN=anna, O=developers");
        assert_eq!(subject("anna", None), "CN=anna");
    }
}

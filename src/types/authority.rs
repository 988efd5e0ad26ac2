//! The certificate authorities of a cluster, and their fingerprints.

use std::fmt;

use serde::{Deserialize, Serialize};
use x509_parser::pem::Pem;

use super::Digest;

/// A certificate authority or key whose replacement breaks a running cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Authority {
    /// The CA of Kubernetes: API servers, kubelets and users.
    Kubernetes,
    /// The CA for clients of aggregated API servers.
    FrontProxy,
    /// The CA of an etcd that kubeadm or kubexm runs.
    Etcd,
    /// kubexm's CA, which signs the certificate of the cluster's registry.
    Registry,
    /// The public key of tokens of service accounts.
    ServiceAccounts,
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kubernetes => "Kubernetes CA",
            Self::FrontProxy => "front-proxy CA",
            Self::Etcd => "etcd CA",
            Self::Registry => "registry CA",
            Self::ServiceAccounts => "key of service accounts",
        })
    }
}

/// Returns the SHA-256 fingerprints of the certificates or public keys in a PEM file, as
/// `openssl x509 -fingerprint -sha256` computes them. A block that is not valid PEM ends the list.
pub fn fingerprints(pem: &str) -> Vec<Digest> {
    Pem::iter_from_buffer(pem.as_bytes())
        .map_while(Result::ok)
        .map(|block| Digest::of(&block.contents))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprint_is_that_of_the_content_and_not_of_the_text() {
        let one = "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n";
        let other = one.replace('\n', "\r\n");
        let expected = vec![Digest::of(b"abc")];
        assert_eq!(fingerprints(one), expected);
        assert_eq!(fingerprints(&other), expected);
        assert_eq!(fingerprints(&format!("{one}{one}")).len(), 2);
        assert_eq!(fingerprints("no certificate"), []);
    }
}

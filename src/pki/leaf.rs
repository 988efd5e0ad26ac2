//! What a certificate is for.

use rcgen::ExtendedKeyUsagePurpose;

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
    pub(crate) fn extended(self) -> Vec<ExtendedKeyUsagePurpose> {
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

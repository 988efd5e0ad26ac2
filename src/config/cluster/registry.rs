//! `spec.registry`.

use std::path::PathBuf;

use super::PasswordSource;
use kubexm_types::{HostName, HostPath, Secret, SecretError};

/// `spec.registry`.
#[derive(Debug, Clone)]
pub struct Registry {
    /// The name in certificates, `/etc/hosts` and `hosts.toml`.
    pub host_name: HostName,
    /// TLS port.
    pub port: u16,
    /// Directory of the blobs.
    pub data_dir: HostPath,
    /// Whether a registry that kubexm runs requires a login.
    pub login: bool,
    /// A registry of the site, instead of those that kubexm runs on hosts of the role `registry`.
    pub external: Option<ExternalRegistry>,
}

/// A registry of the site that implements the OCI distribution specification, such as Harbor.
#[derive(Debug, Clone)]
pub struct ExternalRegistry {
    /// `host` or `host:port`, TLS.
    pub address: String,
    /// Prefix of all repositories, such as a project of Harbor; may be empty.
    pub project: String,
    /// File on the controller with the CA of its certificate; `None` if the hosts already trust it.
    pub ca_file: Option<PathBuf>,
    /// The login to pull and push; `None` for anonymous access.
    pub login: Option<RegistryLogin>,
}

/// A registry besides that of the cluster, from which runtimes pull images.
#[derive(Debug, Clone)]
pub struct SiteRegistry {
    /// `host` or `host:port`, as image names have it.
    pub name: String,
    /// Servers that runtimes try first: `host` or `host:port`.
    pub mirrors: Vec<String>,
    /// File on the controller with the CA of the servers' certificates; `None` if the hosts already trust it.
    pub ca_file: Option<PathBuf>,
    /// The login to pull; `None` for anonymous access.
    pub login: Option<RegistryLogin>,
    /// Whether certificates are not verified, and plain HTTP is accepted.
    pub insecure: bool,
}

/// A user of a registry.
#[derive(Debug, Clone)]
pub struct RegistryLogin {
    pub user: String,
    /// Where the password comes from.
    pub password: PasswordSource,
}

impl ExternalRegistry {
    /// Returns the name of a repository in the registry.
    pub fn repository(&self, name: &str) -> String {
        match self.project.as_str() {
            "" => name.to_owned(),
            project => format!("{project}/{name}"),
        }
    }
}

impl RegistryLogin {
    /// Reads the password. A file that other users can read is accepted; [`Cluster::notices`](super::Cluster::notices) has a
    /// notice about it.
    ///
    /// # Errors
    /// The file cannot be read, or the variable is not set.
    pub fn password(&self) -> Result<Secret, SecretError> {
        match &self.password {
            PasswordSource::File(path) => Secret::from_shared_file(path),
            other => other.read(),
        }
    }
}

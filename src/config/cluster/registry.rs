//! `spec.registry`.

use std::path::PathBuf;

use kubexm_types::{HostName, HostPath};

/// `spec.registry`.
#[derive(Debug, Clone)]
pub struct Registry {
    /// The name in certificates, `/etc/hosts` and `hosts.toml`.
    pub host_name: HostName,
    /// TLS port.
    pub port: u16,
    /// Directory of the blobs.
    pub data_dir: HostPath,
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

/// A user of a registry.
#[derive(Debug, Clone)]
pub struct RegistryLogin {
    pub user: String,
    /// File on the controller with the password in one line.
    pub password_file: PathBuf,
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
    /// Reads the password, which is a secret.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn password(&self) -> std::io::Result<String> {
        let text = std::fs::read_to_string(&self.password_file)?;
        Ok(text.trim_end_matches(['\r', '\n']).to_owned())
    }
}

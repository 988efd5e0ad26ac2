//! `spec.registry`.

use std::path::PathBuf;

use kubexm_types::{HostName, HostPath};

/// `spec.registry`.
#[derive(Debug, Clone)]
pub struct Registry {
    /// Its name in certificates, `/etc/hosts` and `hosts.toml`.
    pub host_name: HostName,
    /// TLS port.
    pub port: u16,
    /// Where it keeps blobs.
    pub data_dir: HostPath,
    /// The user's own, in place of those that kubexm runs on hosts of the role `registry`.
    pub external: Option<ExternalRegistry>,
}

/// A registry that is there already: Harbor, or any other that speaks OCI's protocol.
#[derive(Debug, Clone)]
pub struct ExternalRegistry {
    /// `host` or `host:port`, TLS.
    pub address: String,
    /// What stands before all repositories, such as a project of Harbor's; empty where nothing does.
    pub project: String,
    /// The CA that signed its certificate, a file on this machine; `None` where hosts know it anyway.
    pub ca_file: Option<PathBuf>,
    /// Who may pull from it, and push to it; `None` where anybody may pull.
    pub login: Option<RegistryLogin>,
}

/// A user of a registry.
#[derive(Debug, Clone)]
pub struct RegistryLogin {
    /// Name.
    pub user: String,
    /// File of this machine with the password, in one line.
    pub password_file: PathBuf,
}

impl ExternalRegistry {
    /// A repository of the cluster's as it is called there.
    pub fn repository(&self, name: &str) -> String {
        match self.project.as_str() {
            "" => name.to_owned(),
            project => format!("{project}/{name}"),
        }
    }
}

impl RegistryLogin {
    /// The password. Secret.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn password(&self) -> std::io::Result<String> {
        let text = std::fs::read_to_string(&self.password_file)?;
        Ok(text.trim_end_matches(['\r', '\n']).to_owned())
    }
}

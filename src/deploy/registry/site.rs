//! Registries of the site besides that of the cluster: `spec.containerRuntime.registries`.

use super::encoded_login::encoded_login;
use crate::{DeployError, ETC, Inputs, controller_file};
use kubexm_config::cluster::SiteRegistry;
use kubexm_engine::steps::WriteFile;
use kubexm_types::HostPath;

/// A registry with everything that a runtime needs to pull images from it.
pub(crate) struct Site {
    /// The registry, as image names have it.
    pub(crate) name: String,
    /// Its servers, in the order in which a runtime tries them. The registry itself is the last one.
    pub(crate) servers: Vec<Server>,
}

/// A server of a registry.
#[derive(Clone)]
pub(crate) struct Server {
    /// `host` or `host:port`.
    pub(crate) address: String,
    /// The CA of its certificate, PEM; `None` to use the system's CAs.
    pub(crate) ca: Option<String>,
    /// User and password in base64. Secret.
    pub(crate) login: Option<String>,
    /// Whether its certificate may be wrong, and it may have none.
    pub(crate) insecure: bool,
}

impl Server {
    /// Returns the path of the CA on nodes; `None` to use the system's CAs.
    pub(crate) fn ca_path(&self) -> Option<String> {
        let name = self.address.replace(':', "_");
        self.ca
            .as_ref()
            .map(|_| format!("{ETC}/registries/{name}.crt"))
    }

    /// Returns the file of the CA on nodes; `None` to use the system's CAs.
    ///
    /// # Errors
    /// The address is not part of a path.
    pub(crate) fn ca_file(&self) -> Result<Option<WriteFile>, DeployError> {
        let Some((path, text)) = self.ca_path().zip(self.ca.clone()) else {
            return Ok(None);
        };
        Ok(Some(WriteFile::new(HostPath::parse(&path)?, text)))
    }

    /// Returns the URLs of the server, in the order in which a runtime tries them.
    pub(crate) fn urls(&self) -> Vec<String> {
        let schemes: &[&str] = if self.insecure {
            &["https", "http"]
        } else {
            &["https"]
        };
        // The server of docker.io has another name.
        let host = match self.address.as_str() {
            "docker.io" => "registry-1.docker.io",
            other => other,
        };
        let urls = schemes.iter();
        urls.map(|scheme| format!("{scheme}://{host}")).collect()
    }
}

/// Returns the registries of the site.
///
/// # Errors
/// A CA file or a password cannot be read.
pub(crate) fn registries(inputs: &Inputs<'_>) -> Result<Vec<Site>, DeployError> {
    let all = &inputs.cluster.runtime.registries;
    all.iter().map(|registry| site(registry, all)).collect()
}

fn site(registry: &SiteRegistry, all: &[SiteRegistry]) -> Result<Site, DeployError> {
    let addresses = registry.mirrors.iter().chain([&registry.name]);
    let servers = addresses.map(|address| {
        // A mirror that has an entry of its own is the registry of that entry.
        let own = all.iter().find(|other| other.name == *address);
        server(address, own.unwrap_or(registry))
    });
    Ok(Site {
        name: registry.name.clone(),
        servers: servers.collect::<Result<_, _>>()?,
    })
}

fn server(address: &str, settings: &SiteRegistry) -> Result<Server, DeployError> {
    let ca = settings.ca_file.as_deref().map(controller_file::read);
    Ok(Server {
        address: address.to_owned(),
        ca: ca.transpose()?,
        login: settings.login.as_ref().map(encoded_login).transpose()?,
        insecure: settings.insecure,
    })
}

//! Asks the user's own registry, by connections that hosts make, whether it answers them and has what a
//! cluster needs. Changes nothing in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use futures_util::future::join_all;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use crate::Finding;
use kubexm_config::cluster::{Cluster, ExternalRegistry};
use kubexm_host::forward::LIMIT;
use kubexm_host::{DialError, Host};
use kubexm_types::{HostName, ImageRef};

/// The head of an answer is some hundred bytes; a hostile one must not fill our memory.
const ANSWER: u64 = 64 * 1024;
const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";

/// What is asked for, and how.
struct Asker<'a> {
    registry: &'a ExternalRegistry,
    config: Arc<ClientConfig>,
    name: String,
    port: u16,
    authorization: String,
}

/// All findings: that it answers is asked from every node, for images from the first. `images` are their
/// names with the repositories that they have there.
pub async fn check(
    cluster: &Cluster,
    hosts: &BTreeMap<HostName, Arc<dyn Host>>,
    images: &[(ImageRef, String)],
) -> Vec<Finding> {
    let Some(registry) = &cluster.registry.external else {
        return Vec::new();
    };
    let nodes: Vec<&Arc<dyn Host>> = cluster
        .nodes()
        .iter()
        .filter_map(|host| hosts.get(&host.name))
        .collect();
    let Some(first) = nodes.first() else {
        return Vec::new();
    };
    // Without a CA file the hosts' own CAs count, which are not known here.
    let asker = match Asker::of(registry) {
        Ok(Some(asker)) => asker,
        Ok(None) => return Vec::new(),
        Err(what) => {
            let hint = "correct caFile and passwordFile of spec.registry";
            return vec![Finding::new(first.name(), true, what, hint)];
        }
    };
    let answers = nodes.iter().map(|host| asker.answers(host.as_ref()));
    let findings: Vec<Finding> = join_all(answers).await.into_iter().flatten().collect();
    if !findings.is_empty() {
        return findings;
    }
    asker
        .lacks(first.as_ref(), images)
        .await
        .into_iter()
        .collect()
}

impl<'a> Asker<'a> {
    fn of(registry: &'a ExternalRegistry) -> Result<Option<Self>, String> {
        let Some(file) = &registry.ca_file else {
            return Ok(None);
        };
        let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))? {
            let certificate = certificate.map_err(|error| wrong(&error))?;
            roots.add(certificate).map_err(|error| wrong(&error))?;
        }
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let (name, port) = registry
            .address
            .split_once(':')
            .unwrap_or((&registry.address, "443"));
        let authorization = match &registry.login {
            None => String::new(),
            Some(login) => {
                let file = login.password_file.display();
                let password = login
                    .password()
                    .map_err(|error| format!("{file}: {error}"))?;
                let pair = format!("{}:{password}", login.user);
                let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
                format!("Authorization: Basic {encoded}\r\n")
            }
        };
        Ok(Some(Self {
            registry,
            config: Arc::new(config),
            name: name.to_owned(),
            port: port.parse().unwrap_or(443),
            authorization,
        }))
    }

    async fn answers(&self, host: &dyn Host) -> Option<Finding> {
        let address = &self.registry.address;
        let hint =
            "correct spec.registry, or what stands between; its images come from nowhere else";
        match self.status(host, "GET", "/v2/").await {
            Ok(200) => None,
            Ok(401) => {
                let what = format!("the registry {address} refuses the login");
                let hint = "correct username and passwordFile of spec.registry";
                Some(Finding::new(host.name(), true, what, hint))
            }
            Ok(status) => {
                let what = format!("what answers at {address} is no registry (status {status})");
                Some(Finding::new(host.name(), true, what, hint))
            }
            Err(Broken::Dial(DialError::NotAllowed)) => {
                let what = format!("{address} was not looked at: {}", DialError::NotAllowed);
                let hint = "nodes will look at it when they pull their images";
                Some(Finding::new(host.name(), false, what, hint))
            }
            Err(error) => {
                let what = format!("cannot use the registry {address}: {error}");
                Some(Finding::new(host.name(), true, what, hint))
            }
        }
    }

    async fn lacks(&self, host: &dyn Host, images: &[(ImageRef, String)]) -> Option<Finding> {
        let asked = images.iter().map(|(image, repository)| async move {
            let repository = self.registry.repository(repository);
            let digest = image.digest().map(|digest| digest.to_string());
            let reference = image.tag().map(str::to_owned).or(digest)?;
            let path = format!("/v2/{repository}/manifests/{reference}");
            let status = self.status(host, "HEAD", &path).await;
            (!matches!(status, Ok(200))).then(|| image.to_string())
        });
        let missing: Vec<String> = join_all(asked).await.into_iter().flatten().collect();
        if missing.is_empty() {
            return None;
        }
        let (address, count) = (&self.registry.address, missing.len());
        let some = missing[..count.min(3)].join(", ");
        let what = format!("the registry {address} lacks {count} of the bundle's images: {some}…");
        let hint = "kubexm registry seed --bundle BUNDLE -f CLUSTER";
        Some(Finding::new(host.name(), true, what, hint))
    }

    /// The status of an answer. HTTP/1.0, so that it ends with the connection.
    async fn status(&self, host: &dyn Host, verb: &str, path: &str) -> Result<u16, Broken> {
        let line = host.dial(&self.name, self.port).await?;
        let server = ServerName::try_from(self.name.clone())
            .map_err(|error| Broken::Tls(error.to_string()))?;
        let exchange = async {
            let connector = TlsConnector::from(Arc::clone(&self.config));
            let mut stream = connector.connect(server, line).await?;
            let request = format!(
                "{verb} {path} HTTP/1.0\r\nHost: {}\r\nAccept: {ACCEPT}\r\n{}\r\n",
                self.registry.address, self.authorization
            );
            stream.write_all(request.as_bytes()).await?;
            let mut bytes = Vec::new();
            // Not every server says goodbye before it closes.
            let read = stream.take(ANSWER).read_to_end(&mut bytes).await;
            match read {
                Err(error) if bytes.is_empty() => Err(error),
                _ => Ok(bytes),
            }
        };
        let answer = tokio::time::timeout(LIMIT, exchange).await;
        let bytes = answer
            .map_err(|_| Broken::Dial(DialError::Silent))?
            .map_err(|error: std::io::Error| Broken::Tls(error.to_string()))?;
        let text = String::from_utf8_lossy(&bytes);
        let mut words = text.split_whitespace();
        match (words.next(), words.next().map(str::parse)) {
            (Some(version), Some(Ok(status))) if version.starts_with("HTTP/") => Ok(status),
            _ => Err(Broken::Tls("it does not speak HTTP".to_owned())),
        }
    }
}

/// Why a registry cannot be asked.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("{0}")]
    Tls(String),
}

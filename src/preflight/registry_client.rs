//! Checks, over connections that hosts open, that an external registry answers and has the images of a
//! cluster. Changes nothing in the registry.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use http_body_util::Full;
use hyper::header::{ACCEPT, AUTHORIZATION, HOST, HeaderValue};
use hyper::{Method, Request};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::finding::Finding;
use crate::exchange::{self, ExchangeError};
use crate::probe;
use kubexm_config::cluster::{Cluster, ExternalRegistry};
use kubexm_host::{Host, TunnelError};
use kubexm_types::{HostName, ImageRef};

const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";

/// An external registry, with CA and login.
struct RegistryClient<'a> {
    registry: &'a ExternalRegistry,
    config: Arc<ClientConfig>,
    name: String,
    port: u16,
    authorization: Option<HeaderValue>,
    /// The pauses between the attempts of a request without an answer.
    pauses: &'static [Duration],
}

/// What a registry knows about an image.
#[derive(Debug, PartialEq, Eq)]
enum Lookup {
    Present,
    /// The registry answered that it does not have the image.
    Absent,
    /// The registry did not answer the question; the text is the cause.
    Unknown(String),
}

/// Returns all findings. Every node checks that the registry answers, and the first node checks the images.
/// `images` are names of images with their repositories in the registry.
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
    // Without a CA file the hosts use their own CAs, which kubexm does not know.
    let client = match RegistryClient::new(registry) {
        Ok(Some(client)) => client,
        Ok(None) => return Vec::new(),
        Err(what) => {
            let hint = "correct caFile and passwordFile of spec.registry in the cluster file";
            return vec![Finding::new(first.name(), true, what, hint)];
        }
    };
    let answers = nodes.iter().map(|host| client.check_answer(host.as_ref()));
    let findings: Vec<Finding> = join_all(answers).await.into_iter().flatten().collect();
    if !findings.is_empty() {
        return findings;
    }
    client.check_images(first.as_ref(), images).await
}

impl<'a> RegistryClient<'a> {
    /// Reads CA and password from the files. Returns `None` without a CA file.
    fn new(registry: &'a ExternalRegistry) -> Result<Option<Self>, String> {
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
            None => None,
            Some(login) => {
                let password = login.password().map_err(|error| error.to_string())?;
                let pair = format!("{}:{}", login.user, password.0);
                let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
                let value = HeaderValue::from_str(&format!("Basic {encoded}"));
                let mut value = value.map_err(|error| format!("the password: {error}"))?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        Ok(Some(Self {
            registry,
            config: Arc::new(config),
            name: name.to_owned(),
            port: port.parse().unwrap_or(443),
            authorization,
            pauses: &probe::PAUSES,
        }))
    }

    /// Returns a finding if the registry does not answer a host correctly.
    async fn check_answer(&self, host: &dyn Host) -> Option<Finding> {
        let address = &self.registry.address;
        let hint =
            "correct spec.registry, or open the network to it: hosts pull every image from there";
        match self.status(host, Method::GET, "/v2/").await {
            Ok(200) => None,
            Ok(401) => {
                let what = format!("the registry {address} refuses the login");
                let hint = "correct username and passwordFile of spec.registry";
                Some(Finding::new(host.name(), true, what, hint))
            }
            Ok(status) if is_passing(status) => {
                let what = format!("the registry {address} does not answer: status {status}");
                let hint = "wait until the registry is ready, or read its log";
                Some(Finding::new(host.name(), true, what, hint))
            }
            Ok(status) => {
                let what = format!("the server at {address} is not a registry (status {status})");
                Some(Finding::new(host.name(), true, what, hint))
            }
            Err(StatusError::Tunnel(TunnelError::NotAllowed)) => {
                let what = format!("cannot check {address}: {}", TunnelError::NotAllowed);
                let hint = "allow TCP forwarding in sshd_config, or check yourself that nodes can pull from it";
                Some(Finding::new(host.name(), false, what, hint))
            }
            Err(error) => {
                let what = format!("cannot use the registry {address}: {error}");
                Some(Finding::new(host.name(), true, what, hint))
            }
        }
    }

    /// Returns findings for the images that the registry does not have, and for those that it did not answer for.
    async fn check_images(&self, host: &dyn Host, images: &[(ImageRef, String)]) -> Vec<Finding> {
        let lookups = images.iter().map(|(image, repository)| async move {
            (
                image.to_string(),
                self.look_up(host, image, repository).await,
            )
        });
        let lookups = stream::iter(lookups).buffered(probe::PARALLEL);
        let results: Vec<(String, Lookup)> = lookups.collect().await;
        let (address, total) = (&self.registry.address, results.len());
        let mut findings = Vec::new();
        let unknown = results.iter().filter_map(|(image, lookup)| match lookup {
            Lookup::Unknown(cause) => Some(format!("{image}: {cause}")),
            Lookup::Present | Lookup::Absent => None,
        });
        let unknown: Vec<String> = unknown.collect();
        if let Some(first) = unknown.first() {
            let count = unknown.len();
            let what = format!(
                "the registry {address} did not answer for {count} of {total} images, so kubexm does not know \
                 whether it has them: {first}"
            );
            let hint = "check that the registry is not overloaded and that the login may read this repository, \
                        read the registry's log, and run the command again";
            findings.push(Finding::new(host.name(), true, what, hint));
        }
        let absent = results
            .iter()
            .filter(|(_, lookup)| *lookup == Lookup::Absent);
        let absent: Vec<&str> = absent.map(|(image, _)| image.as_str()).collect();
        if !absent.is_empty() {
            let (count, some) = (absent.len(), absent[..absent.len().min(3)].join(", "));
            let what = format!(
                "the registry {address} is missing {count} of the bundle's images: {some}…"
            );
            let hint = "run kubexm registry seed BUNDLE -f CLUSTER";
            findings.push(Finding::new(host.name(), true, what, hint));
        }
        findings
    }

    /// Asks the registry for an image
    /// (<https://github.com/opencontainers/distribution-spec/blob/main/spec.md#checking-if-content-exists-in-the-registry>).
    async fn look_up(&self, host: &dyn Host, image: &ImageRef, repository: &str) -> Lookup {
        let repository = self.registry.repository(repository);
        let digest = image.digest().map(|digest| digest.to_string());
        let Some(reference) = image.tag().map(str::to_owned).or(digest) else {
            return Lookup::Present;
        };
        let path = format!("/v2/{repository}/manifests/{reference}");
        match self.status(host, Method::HEAD, &path).await {
            Ok(200) => Lookup::Present,
            Ok(404) => Lookup::Absent,
            Ok(status) => Lookup::Unknown(format!("status {status}")),
            Err(error) => Lookup::Unknown(error.to_string()),
        }
    }

    /// Sends a request until it has an answer, at most a few times, and returns the status of the response.
    async fn status(
        &self,
        host: &dyn Host,
        method: Method,
        path: &str,
    ) -> Result<u16, StatusError> {
        let is_final = |answer: &Result<u16, StatusError>| match answer {
            Ok(status) => !is_passing(*status),
            Err(error) => error.is_final(),
        };
        probe::repeat(self.pauses, is_final, async || {
            self.attempt(host, method.clone(), path).await
        })
        .await
    }

    async fn attempt(
        &self,
        host: &dyn Host,
        method: Method,
        path: &str,
    ) -> Result<u16, StatusError> {
        let stream = host.open_tunnel(&self.name, self.port).await?;
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.registry.address)
            .header(ACCEPT, MANIFESTS);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Full::default());
        let request = request.map_err(|error| StatusError::Tls(error.to_string()))?;
        let response = exchange::send(&self.config, stream, &self.name, request).await;
        Ok(response.map_err(StatusError::from)?.status)
    }
}

/// The reason why kubexm cannot query a registry.
#[derive(Debug, thiserror::Error)]
enum StatusError {
    #[error(transparent)]
    Tunnel(#[from] TunnelError),
    #[error("{0}")]
    Disconnected(String),
    #[error("{0}")]
    Tls(String),
}

impl StatusError {
    /// Returns whether another attempt has the same result.
    fn is_final(&self) -> bool {
        match self {
            Self::Tunnel(TunnelError::Refused | TunnelError::TimedOut) | Self::Disconnected(_) => {
                false
            }
            Self::Tunnel(TunnelError::NotAllowed | TunnelError::Disconnected) | Self::Tls(_) => {
                true
            }
        }
    }
}

/// Returns whether a status states that the server cannot answer now (RFC 9110 section 15.6, RFC 6585 section 4).
fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..=599)
}

impl From<ExchangeError> for StatusError {
    fn from(error: ExchangeError) -> Self {
        match error {
            ExchangeError::TimedOut => Self::Tunnel(TunnelError::TimedOut),
            ExchangeError::NotHttp => Self::Tls("it does not speak HTTP".to_owned()),
            ExchangeError::Disconnected(reason) => Self::Disconnected(reason),
            ExchangeError::Name(reason) => Self::Tls(reason),
            ExchangeError::Tls(error) => Self::Tls(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rustls::ServerConfig;

    use super::*;
    use crate::authority::Authority;

    const VERSION: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    const PRESENT: &str = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";

    /// Returns the finding for a registry with one answer for `/v2/` and one for manifests.
    async fn finding(version: &'static str, manifest: &'static str) -> Option<String> {
        let findings = findings(&["pause"], move |_, request| match request {
            None => version,
            Some(_) => manifest,
        });
        findings.await.into_iter().next()
    }

    /// Returns the findings for a registry and images. `answer` gets the number of the request, from 0, and the
    /// name of the image; `None` for `/v2/`.
    async fn findings(
        names: &[&str],
        answer: impl Fn(usize, Option<&str>) -> &'static str + Send + 'static,
    ) -> Vec<String> {
        let authority = Authority::new();
        let config = ServerConfig::builder().with_no_client_auth();
        let count = AtomicUsize::new(0);
        let answers = move |request: &str| {
            assert!(request.contains("\r\nhost: 127.0.0.1:"), "{request}");
            let nth = count.fetch_add(1, Ordering::SeqCst);
            let image = request.strip_prefix("HEAD /v2/lab/");
            let image = image.and_then(|rest| rest.split_once("/manifests/3.10 HTTP/1.1\r\n"));
            answer(nth, image.map(|(name, _)| name)).to_owned()
        };
        let port = authority.serve(config, answers).await;
        let registry = ExternalRegistry {
            address: format!("127.0.0.1:{port}"),
            project: "lab".to_owned(),
            ca_file: Some(authority.path("ca.crt")),
            login: None,
        };
        let host = kubexm_host::local::LocalHost::new("here".parse().unwrap());
        let mut client = RegistryClient::new(&registry).unwrap().unwrap();
        client.pauses = &[Duration::ZERO; 3];
        let images = names.iter().map(|name| {
            let image = format!("registry.k8s.io/{name}:3.10").parse().unwrap();
            (image, (*name).to_owned())
        });
        let images: Vec<(ImageRef, String)> = images.collect();
        let found = match client.check_answer(&host).await {
            Some(found) => vec![found],
            None => client.check_images(&host, &images).await,
        };
        let texts = found.into_iter().map(|found| found.what);
        texts
            .map(|text| text.replace(&registry.address, "REGISTRY"))
            .collect()
    }

    #[tokio::test]
    async fn each_answer_of_a_registry_has_its_own_finding() {
        let status = |number| match number {
            200 => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
            401 => "HTTP/1.1 401 Unauthorized\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            404 => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            _ => "HTTP/1.1 503 Service Unavailable\r\n\r\n",
        };
        let missing = "the registry REGISTRY is missing 1 of the bundle's images: registry.k8s.io/pause:3.10…";
        let silent = "the registry REGISTRY did not answer for 1 of 1 images, so kubexm does not know whether it \
                      has them: registry.k8s.io/pause:3.10: ";
        for (version, manifest, expected) in [
            (status(200), PRESENT, None),
            (
                status(401),
                PRESENT,
                Some("the registry REGISTRY refuses the login".to_owned()),
            ),
            (
                status(404),
                PRESENT,
                Some("the server at REGISTRY is not a registry (status 404)".to_owned()),
            ),
            (
                status(503),
                PRESENT,
                Some("the registry REGISTRY does not answer: status 503".to_owned()),
            ),
            (status(200), status(404), Some(missing.to_owned())),
            (
                status(200),
                status(401),
                Some(format!("{silent}status 401")),
            ),
            (
                status(200),
                status(503),
                Some(format!("{silent}status 503")),
            ),
        ] {
            assert_eq!(finding(version, manifest).await, expected);
        }
    }

    #[tokio::test]
    async fn broken_connection_is_not_a_missing_image() {
        let nothing = finding("", PRESENT).await.unwrap();
        assert!(
            nothing.starts_with("cannot use the registry REGISTRY: "),
            "{nothing}"
        );
        let foreign = finding("220 mail.example ESMTP\r\n", PRESENT)
            .await
            .unwrap();
        assert_eq!(
            foreign,
            "cannot use the registry REGISTRY: it does not speak HTTP"
        );
        let version = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        let broken = finding(version, "").await.unwrap();
        assert!(
            broken.contains("did not answer for 1 of 1 images")
                && broken.contains(": registry.k8s.io/pause:3.10: "),
            "{broken}"
        );
    }

    /// A registry that answers none of the first requests: with 503, with 429, and with a broken connection.
    #[tokio::test]
    async fn request_without_an_answer_is_repeated() {
        const FAILURES: [&str; 3] = [
            "HTTP/1.1 503 Service Unavailable\r\n\r\n",
            "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n",
            "",
        ];
        let found = findings(&["pause"], |nth, image| match (nth, image) {
            (0..=2, None) => FAILURES[nth],
            (_, None) => VERSION,
            (4..=6, Some(_)) => FAILURES[nth - 4],
            (_, Some(_)) => PRESENT,
        });
        assert_eq!(found.await, [""; 0]);
    }

    #[tokio::test]
    async fn absent_images_and_images_without_an_answer_are_different_findings() {
        let names = ["present", "absent", "silent", "also-absent"];
        let found = findings(&names, |_, image| match image {
            None => VERSION,
            Some("present") => PRESENT,
            Some("silent") => "HTTP/1.1 503 Service Unavailable\r\n\r\n",
            Some(_) => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        });
        insta::assert_snapshot!(found.await.join("\n"), @"
        the registry REGISTRY did not answer for 1 of 4 images, so kubexm does not know whether it has them: registry.k8s.io/silent:3.10: status 503
        the registry REGISTRY is missing 2 of the bundle's images: registry.k8s.io/absent:3.10, registry.k8s.io/also-absent:3.10…
        ");
    }
}

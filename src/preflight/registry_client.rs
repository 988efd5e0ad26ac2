//! Requests to an external registry over connections that hosts open.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use http_body_util::Full;
use hyper::header::{ACCEPT, AUTHORIZATION, HOST, HeaderValue};
use hyper::{Method, Request};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::exchange::{self, ExchangeError, Response};
use crate::probe;
use kubexm_config::cluster::ExternalRegistry;
use kubexm_host::{Command, Host, TunnelError};
use kubexm_types::ImageRef;

const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";

/// Where container runtimes, which are programs in Go, look for the CAs of a system
/// (<https://go.dev/src/crypto/x509/root_linux.go>).
const SYSTEM_CAS: [&str; 8] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/pki/tls/certs",
];
/// Prints the certificates in files and directories, each file once: most names are links. Keys in the files stay on the host.
const CERTIFICATES: &str = "for path in \"$@\"; do if [ -d \"$path\" ]; then readlink -f \"$path\"/* || :; else readlink -f \"$path\" || :; fi; done | \
sort -u | while read -r file; do [ ! -f \"$file\" ] || sed -n '/^-----BEGIN CERTIFICATE-----/,/^-----END CERTIFICATE-----/p' \"$file\"; done";

/// An external registry, with CA and login.
#[derive(Clone)]
pub(crate) struct RegistryClient<'a> {
    registry: &'a ExternalRegistry,
    config: Arc<ClientConfig>,
    name: String,
    port: u16,
    authorization: Option<HeaderValue>,
    /// The pauses between the attempts of a request without an answer.
    pub(crate) pauses: &'static [Duration],
}

/// What a registry knows about an image.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    Present,
    /// The registry answered that it does not have the image.
    Absent,
    /// The registry did not answer the question; the text is the cause.
    Unknown(String),
}

impl<'a> RegistryClient<'a> {
    /// Reads CA and password from the files. Without a CA file, the client accepts no server: [`RegistryClient::of_host`]
    /// returns one that does.
    pub(crate) fn new(registry: &'a ExternalRegistry) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        if let Some(file) = &registry.ca_file {
            let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
            for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))? {
                let certificate = certificate.map_err(|error| wrong(&error))?;
                roots.add(certificate).map_err(|error| wrong(&error))?;
            }
        }
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
        Ok(Self {
            registry,
            config: config(roots),
            name: name.to_owned(),
            port: port.parse().unwrap_or(443),
            authorization,
            pauses: &probe::PAUSES,
        })
    }

    /// Returns the client for requests from a host. Without a CA file it accepts the CAs of the host, as its runtime does.
    pub(crate) async fn of_host(&self, host: &dyn Host) -> Result<Self, CaError> {
        if self.has_own_ca() {
            Ok(self.clone())
        } else {
            self.trusting(host, &SYSTEM_CAS).await
        }
    }

    /// Returns the client with the CAs in files and directories of a host.
    pub(crate) async fn trusting(&self, host: &dyn Host, paths: &[&str]) -> Result<Self, CaError> {
        let command = Command::script(CERTIFICATES, paths.iter().copied());
        let output = host.run(command.describe("read the CAs of the host")).await;
        let output = output.map_err(|error| CaError::Unread(error.to_string()))?;
        if !output.success() {
            return Err(CaError::Unread(output.complaint().to_string()));
        }
        let mut roots = RootCertStore::empty();
        // A runtime ignores what it cannot read, too.
        let certificates = CertificateDer::pem_slice_iter(&output.stdout).filter_map(Result::ok);
        roots.add_parsable_certificates(certificates);
        if roots.is_empty() {
            return Err(CaError::Absent(paths.join(", ")));
        }
        Ok(Self {
            config: config(roots),
            ..self.clone()
        })
    }

    /// Returns whether the cluster file names the CA.
    pub(crate) fn has_own_ca(&self) -> bool {
        self.registry.ca_file.is_some()
    }

    /// Returns whether requests have a login.
    pub(crate) fn has_login(&self) -> bool {
        self.authorization.is_some()
    }

    /// Returns `host` or `host:port` of the registry.
    pub(crate) fn address(&self) -> &'a str {
        &self.registry.address
    }

    /// Asks the registry for an image
    /// (<https://github.com/opencontainers/distribution-spec/blob/main/spec.md#checking-if-content-exists-in-the-registry>).
    pub(crate) async fn look_up(
        &self,
        host: &dyn Host,
        image: &ImageRef,
        repository: &str,
    ) -> Lookup {
        let repository = self.registry.repository(repository);
        let digest = image.digest().map(|digest| digest.to_string());
        let Some(reference) = image.tag().map(str::to_owned).or(digest) else {
            return Lookup::Present;
        };
        let path = format!("/v2/{repository}/manifests/{reference}");
        match self.ask(host, Method::HEAD, &path).await {
            Ok(answer) => match answer.status {
                200 => Lookup::Present,
                404 => Lookup::Absent,
                status => Lookup::Unknown(format!("status {status}")),
            },
            Err(error) => Lookup::Unknown(error.to_string()),
        }
    }

    /// Sends a request until it has an answer, at most a few times, and returns the response.
    pub(crate) async fn ask(
        &self,
        host: &dyn Host,
        method: Method,
        path: &str,
    ) -> Result<Response, StatusError> {
        let is_final = |answer: &Result<Response, StatusError>| match answer {
            Ok(answer) => !is_passing(answer.status),
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
    ) -> Result<Response, StatusError> {
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
        Ok(response?)
    }
}

fn config(roots: RootCertStore) -> Arc<ClientConfig> {
    let config = ClientConfig::builder().with_root_certificates(roots);
    Arc::new(config.with_no_client_auth())
}

/// The reason why kubexm does not know the CAs of a host.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CaError {
    /// The host did not answer.
    #[error("cannot read the CAs of the host: {0}")]
    Unread(String),
    /// The host has none in these paths.
    #[error("the host has no CAs in {0}")]
    Absent(String),
}

/// The reason why kubexm cannot query a registry.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StatusError {
    #[error(transparent)]
    Tunnel(#[from] TunnelError),
    #[error("{0}")]
    Disconnected(String),
    /// The certificate of the server is not accepted.
    #[error("{0}")]
    Certificate(String),
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
            Self::Tunnel(TunnelError::NotAllowed | TunnelError::Disconnected)
            | Self::Certificate(_)
            | Self::Tls(_) => true,
        }
    }
}

/// Returns whether a status states that the server cannot answer now (RFC 9110 section 15.6, RFC 6585 section 4).
pub(crate) fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..=599)
}

impl From<ExchangeError> for StatusError {
    fn from(error: ExchangeError) -> Self {
        match error {
            ExchangeError::TimedOut => Self::Tunnel(TunnelError::TimedOut),
            ExchangeError::NotHttp => Self::Tls("it does not speak HTTP".to_owned()),
            ExchangeError::Disconnected(reason) => Self::Disconnected(reason),
            ExchangeError::Name(reason) => Self::Tls(reason),
            ExchangeError::Tls(error @ rustls::Error::InvalidCertificate(_)) => {
                Self::Certificate(error.to_string())
            }
            ExchangeError::Tls(error) => Self::Tls(error.to_string()),
        }
    }
}

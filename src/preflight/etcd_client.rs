//! Reads version, health and number of keys of an external etcd, over a connection that a host opens, with
//! the client certificate of the cluster. Changes nothing in etcd.

use std::path::Path;
use std::sync::Arc;

use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CertificateError, ClientConfig, RootCertStore};

use crate::exchange::{self, ExchangeError, Response};
use kubexm_host::forward::{TunnelError, TunnelStream};
use kubexm_types::Version;

/// What an etcd reports about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdStatus {
    /// The version; `None` if it cannot be parsed.
    pub version: Option<Version>,
    /// The answer of an etcd that is not healthy; `None` if it is healthy.
    pub unhealthy: Option<String>,
    pub keys: Keys,
}

/// The keys under the cluster's prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keys {
    /// etcd counted this number of keys.
    Count(u64),
    /// etcd's JSON gateway is off, so kubexm cannot count keys.
    NoGateway,
    /// etcd did not count them. The text is what it answered.
    Unknown(String),
}

/// The reason why kubexm cannot query an etcd.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// The host cannot connect to etcd.
    #[error(transparent)]
    Tunnel(#[from] TunnelError),
    /// Another CA signed etcd's certificate.
    #[error("its certificate is not signed by the CA in caFile")]
    OtherCa,
    /// etcd's certificate does not contain the name of the endpoint.
    #[error("its certificate is not valid for {0}")]
    OtherName(String),
    /// The connection broke before the answer was complete.
    #[error("{0}")]
    Disconnected(String),
    /// Another failure of TLS, such as an expired or a refused certificate.
    #[error("TLS: {0}")]
    Tls(String),
    /// A server answers that is not an etcd.
    #[error("the server is not an etcd: {0}")]
    NotEtcd(String),
}

/// A client with the CA, the certificate and the key of the cluster file.
pub struct Client {
    config: Arc<ClientConfig>,
}

impl Client {
    /// Reads CA, certificate and key from PEM files on this machine.
    ///
    /// # Errors
    /// Names the file that cannot be used, and the cause.
    pub fn load(ca: &Path, certificate: &Path, key: &Path) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(ca)? {
            roots
                .add(certificate)
                .map_err(|error| format!("{}: {error}", ca.display()))?;
        }
        let chain = certificates(certificate)?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| {
            format!("{}: does not contain a private key: {error}", key.display())
        })?;
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, secret)
            .map_err(|error| {
                let (certificate, key) = (certificate.display(), key.display());
                format!("{certificate} and {key} do not belong together: {error}")
            })?;
        Ok(Self {
            config: Arc::new(config),
        })
    }

    /// Queries the etcd to which `connect` opens connections. `name` is the host of the endpoint, and
    /// `prefix` selects the keys to count.
    pub async fn query<F>(
        &self,
        connect: impl Fn() -> F,
        name: &str,
        prefix: &str,
    ) -> Result<EtcdStatus, EtcdError>
    where
        F: Future<Output = Result<Box<dyn TunnelStream>, TunnelError>>,
    {
        let version = self.get(connect().await?, name, "/version").await?;
        let Some(json) = json(&version) else {
            return Err(EtcdError::NotEtcd(summary(&version)));
        };
        let Some(version) = json["etcdserver"].as_str() else {
            return Err(EtcdError::NotEtcd(json.to_string()));
        };
        let health = self.get(connect().await?, name, "/health").await?;
        let request = Request::post("/v3/kv/range")
            .header(HOST, name)
            .header(CONTENT_TYPE, "application/json")
            .body(count_request(prefix).into());
        let keys = self.send(connect().await?, name, request).await?;
        Ok(EtcdStatus {
            version: version.parse().ok(),
            unhealthy: unhealthy(&health),
            keys: count(&keys),
        })
    }

    async fn get(
        &self,
        stream: Box<dyn TunnelStream>,
        name: &str,
        path: &str,
    ) -> Result<Response, EtcdError> {
        let request = Request::get(path).header(HOST, name);
        self.send(stream, name, request.body(Full::default())).await
    }

    async fn send(
        &self,
        stream: Box<dyn TunnelStream>,
        name: &str,
        request: hyper::http::Result<Request<Full<Bytes>>>,
    ) -> Result<Response, EtcdError> {
        let request = request.map_err(|error| EtcdError::Tls(format!("{name}: {error}")))?;
        let response = exchange::send(&self.config, stream, name, request).await;
        response.map_err(|error| EtcdError::from_exchange(error, name))
    }
}

impl EtcdError {
    /// Returns whether another attempt has the same result.
    pub fn is_final(&self) -> bool {
        let is_passing = matches!(
            self,
            Self::Tunnel(TunnelError::Refused | TunnelError::TimedOut) | Self::Disconnected(_)
        );
        !is_passing
    }

    fn from_exchange(error: ExchangeError, name: &str) -> Self {
        use rustls::Error;
        match error {
            ExchangeError::TimedOut => Self::Tunnel(TunnelError::TimedOut),
            ExchangeError::NotHttp => Self::NotEtcd("it does not speak HTTP".to_owned()),
            ExchangeError::Disconnected(reason) => Self::Disconnected(reason),
            ExchangeError::Name(reason) => Self::Tls(reason),
            ExchangeError::Tls(Error::InvalidCertificate(reason)) => match reason {
                CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::OtherCa,
                CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. } => {
                    Self::OtherName(name.to_owned())
                }
                other => Self::Tls(format!("its certificate: {other}")),
            },
            ExchangeError::Tls(Error::AlertReceived(alert)) => Self::Tls(format!(
                "the server refuses the client certificate ({alert:?})"
            )),
            ExchangeError::Tls(other) => Self::Tls(other.to_string()),
        }
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let list: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file)
        .map_err(|error| wrong(&error))?
        .collect();
    let list = list.map_err(|error| wrong(&error))?;
    if list.is_empty() {
        return Err(wrong(&"does not contain a certificate"));
    }
    Ok(list)
}

/// Returns the body of a request that counts keys without reading them
/// (<https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway/>).
fn count_request(prefix: &str) -> String {
    use base64::Engine;
    let encode = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    let (key, end) = (encode(prefix.as_bytes()), encode(&end));
    serde_json::json!({"key": key, "range_end": end, "count_only": true}).to_string()
}

fn json(response: &Response) -> Option<serde_json::Value> {
    (response.status == 200).then(|| serde_json::from_slice(&response.body).ok())?
}

fn summary(response: &Response) -> String {
    let body = String::from_utf8_lossy(&response.body);
    let start: String = body.chars().take(100).collect();
    format!("status {} {}", response.status, start.trim())
}

/// Returns a summary of the answer of an etcd that is not healthy; `None` for `{"health":"true"}`.
fn unhealthy(response: &Response) -> Option<String> {
    let healthy = json(response).is_some_and(|json| json["health"] == "true");
    (!healthy).then(|| summary(response))
}

/// Returns the number of keys. The gateway omits a count of 0, and writes numbers as text. Without the gateway etcd
/// answers 404.
fn count(response: &Response) -> Keys {
    if response.status == 404 {
        return Keys::NoGateway;
    }
    let counted = json(response).and_then(|json| {
        json.get("header")?;
        match json["count"].as_str() {
            None => Some(0),
            Some(text) => text.parse().ok(),
        }
    });
    counted.map_or_else(|| Keys::Unknown(summary(response)), Keys::Count)
}

#[cfg(test)]
mod tests;

//! Asks an external etcd, by a connection that a host makes, with the client files that the cluster
//! will use. Changes nothing in it.

use std::path::Path;
use std::sync::Arc;

use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CertificateError, ClientConfig, RootCertStore};

use crate::exchange::{self, Answer, Failure};
use kubexm_host::forward::{DialError, Line};
use kubexm_types::Version;

/// What an etcd says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers {
    /// Its version, `None` if it cannot be read.
    pub version: Option<Version>,
    /// `None` where it is healthy, else its own words.
    pub ailment: Option<String>,
    /// Keys under the cluster's prefix; `None` where its JSON gateway is off.
    pub keys: Option<u64>,
}

/// Why an etcd cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// No connection.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// Its certificate is signed by another CA.
    #[error("its certificate is not signed by the CA in caFile")]
    OtherCa,
    /// Its certificate does not name the endpoint.
    #[error("its certificate does not name {0}")]
    OtherName(String),
    /// Any other fault of TLS: an expired certificate, a refused client.
    #[error("TLS: {0}")]
    Tls(String),
    /// It answers, but not as an etcd.
    #[error("what answers there is no etcd: {0}")]
    Foreign(String),
}

/// The client files, read.
pub struct Client {
    config: Arc<ClientConfig>,
}

impl Client {
    /// Reads CA, certificate and key, PEM files of this machine.
    ///
    /// # Errors
    /// Which of them cannot be used, and why.
    pub fn load(ca: &Path, certificate: &Path, key: &Path) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(ca)? {
            roots
                .add(certificate)
                .map_err(|error| format!("{}: {error}", ca.display()))?;
        }
        let chain = certificates(certificate)?;
        let secret = PrivateKeyDer::from_pem_file(key)
            .map_err(|error| format!("{}: holds no private key: {error}", key.display()))?;
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, secret)
            .map_err(|error| {
                let (certificate, key) = (certificate.display(), key.display());
                format!("{certificate} and {key} do not go together: {error}")
            })?;
        Ok(Self {
            config: Arc::new(config),
        })
    }

    /// Asks the etcd at the other end of lines that `dial` makes; `name` is the endpoint's host,
    /// `prefix` the keys to count.
    pub async fn ask<F>(
        &self,
        dial: impl Fn() -> F,
        name: &str,
        prefix: &str,
    ) -> Result<Answers, EtcdError>
    where
        F: Future<Output = Result<Box<dyn Line>, DialError>>,
    {
        let version = self.get(dial().await?, name, "/version").await?;
        let Some(json) = json(&version) else {
            return Err(EtcdError::Foreign(summary(&version)));
        };
        let Some(version) = json["etcdserver"].as_str() else {
            return Err(EtcdError::Foreign(json.to_string()));
        };
        let health = self.get(dial().await?, name, "/health").await?;
        let request = Request::post("/v3/kv/range")
            .header(HOST, name)
            .header(CONTENT_TYPE, "application/json")
            .body(count_request(prefix).into());
        let keys = self.answer(dial().await?, name, request).await?;
        Ok(Answers {
            version: version.parse().ok(),
            ailment: ailment(&health),
            keys: count(&keys),
        })
    }

    async fn get(&self, line: Box<dyn Line>, name: &str, path: &str) -> Result<Answer, EtcdError> {
        let request = Request::get(path).header(HOST, name);
        self.answer(line, name, request.body(Full::default())).await
    }

    async fn answer(
        &self,
        line: Box<dyn Line>,
        name: &str,
        request: hyper::http::Result<Request<Full<Bytes>>>,
    ) -> Result<Answer, EtcdError> {
        let request = request.map_err(|error| EtcdError::Tls(format!("{name}: {error}")))?;
        let answer = exchange::ask(&self.config, line, name, request).await;
        answer.map_err(|failure| EtcdError::of(failure, name))
    }
}

impl EtcdError {
    fn of(failure: Failure, name: &str) -> Self {
        use rustls::Error;
        match failure {
            Failure::Silent => Self::Dial(DialError::Silent),
            Failure::Foreign => Self::Foreign("it does not speak HTTP".to_owned()),
            Failure::Name(reason) | Failure::Broken(reason) => Self::Tls(reason),
            Failure::Tls(Error::InvalidCertificate(reason)) => match reason {
                CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::OtherCa,
                CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. } => {
                    Self::OtherName(name.to_owned())
                }
                other => Self::Tls(format!("its certificate: {other}")),
            },
            Failure::Tls(Error::AlertReceived(alert)) => {
                Self::Tls(format!("it refuses the client certificate ({alert:?})"))
            }
            Failure::Tls(other) => Self::Tls(other.to_string()),
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
        return Err(wrong(&"holds no certificate"));
    }
    Ok(list)
}

/// Counts keys and asks for none of them
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

fn json(answer: &Answer) -> Option<serde_json::Value> {
    (answer.status == 200).then(|| serde_json::from_slice(&answer.body).ok())?
}

fn summary(answer: &Answer) -> String {
    let body = String::from_utf8_lossy(&answer.body);
    let start: String = body.chars().take(100).collect();
    format!("status {} {}", answer.status, start.trim())
}

/// Returns what an etcd says of its health; `None` for `{"health":"true"}`.
fn ailment(answer: &Answer) -> Option<String> {
    let healthy = json(answer).is_some_and(|json| json["health"] == "true");
    (!healthy).then(|| summary(answer))
}

/// Returns the number of keys. The gateway omits a count of 0, and writes numbers as text.
fn count(answer: &Answer) -> Option<u64> {
    let json = json(answer)?;
    json.get("header")?;
    let count = json["count"].as_str();
    Some(count.map_or(0, |text| text.parse().unwrap_or(0)))
}

#[cfg(test)]
mod tests;

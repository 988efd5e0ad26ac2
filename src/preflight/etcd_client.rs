//! Asks an external etcd, by a connection that a host makes, with the client files that the cluster
//! will use. Changes nothing in it.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use kubexm_host::forward::{DialError, LIMIT, Line};
use kubexm_types::Version;

/// An answer of etcd is a few hundred bytes; a hostile one must not fill our memory.
const ANSWER: u64 = 64 * 1024;

/// What an etcd says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers {
    /// Its version, where it tells one that can be read.
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
        let version = self
            .request(dial().await?, name, "GET /version", "")
            .await?;
        let version = version
            .json()
            .ok_or_else(|| EtcdError::Foreign(version.summary()))?;
        let Some(version) = version["etcdserver"].as_str() else {
            return Err(EtcdError::Foreign(version.to_string()));
        };
        let health = self.request(dial().await?, name, "GET /health", "").await?;
        let count = count_request(prefix);
        let keys = self
            .request(dial().await?, name, "POST /v3/kv/range", &count)
            .await?;
        Ok(Answers {
            version: version.parse().ok(),
            ailment: health.ailment(),
            keys: keys.count(),
        })
    }

    async fn request(
        &self,
        line: Box<dyn Line>,
        name: &str,
        what: &str,
        body: &str,
    ) -> Result<Answer, EtcdError> {
        let exchange = exchange(Arc::clone(&self.config), line, name, what, body);
        let bytes = tokio::time::timeout(LIMIT, exchange)
            .await
            .map_err(|_| EtcdError::Dial(DialError::Silent))??;
        Answer::parse(&bytes)
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

/// One request and all of its answer. HTTP/1.0, so that the answer ends with the connection.
async fn exchange(
    config: Arc<ClientConfig>,
    line: Box<dyn Line>,
    name: &str,
    what: &str,
    body: &str,
) -> Result<Vec<u8>, EtcdError> {
    let server = ServerName::try_from(name.to_owned())
        .map_err(|error| EtcdError::Tls(format!("{name}: {error}")))?;
    let failed = |error: &std::io::Error| tls_error(error, name);
    let mut stream = TlsConnector::from(config)
        .connect(server, line)
        .await
        .map_err(|error| failed(&error))?;
    let length = body.len();
    let request = format!(
        "{what} HTTP/1.0\r\nHost: {name}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    let sent = stream.write_all(request.as_bytes()).await;
    let mut bytes = Vec::new();
    // A server that refuses our certificate says so only now.
    let read = stream.take(ANSWER).read_to_end(&mut bytes).await;
    match (sent, read) {
        // Not every server says goodbye before it closes.
        (_, Err(error)) if bytes.is_empty() => Err(failed(&error)),
        (Err(error), _) => Err(failed(&error)),
        _ => Ok(bytes),
    }
}

fn tls_error(error: &std::io::Error, name: &str) -> EtcdError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    match inner {
        Some(rustls::Error::InvalidCertificate(reason)) => match reason {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => EtcdError::OtherCa,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                EtcdError::OtherName(name.to_owned())
            }
            other => EtcdError::Tls(format!("its certificate: {other}")),
        },
        Some(rustls::Error::AlertReceived(alert)) => {
            EtcdError::Tls(format!("it refuses the client certificate ({alert:?})"))
        }
        Some(other) => EtcdError::Tls(other.to_string()),
        None => EtcdError::Tls(error.to_string()),
    }
}

/// An HTTP answer.
struct Answer {
    status: u16,
    body: String,
}

impl Answer {
    fn parse(bytes: &[u8]) -> Result<Self, EtcdError> {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let mut words = head.split_whitespace();
        let status = match (words.next(), words.next().map(str::parse)) {
            (Some(version), Some(Ok(status))) if version.starts_with("HTTP/") => status,
            _ => return Err(EtcdError::Foreign("it does not speak HTTP".to_owned())),
        };
        Ok(Self {
            status,
            body: body.to_owned(),
        })
    }

    fn json(&self) -> Option<serde_json::Value> {
        (self.status == 200).then(|| serde_json::from_str(&self.body).ok())?
    }

    fn summary(&self) -> String {
        let start: String = self.body.chars().take(100).collect();
        format!("status {} {}", self.status, start.trim())
    }

    /// `{"health":"true"}` of the healthy.
    fn ailment(&self) -> Option<String> {
        let healthy = self.json().is_some_and(|json| json["health"] == "true");
        (!healthy).then(|| self.summary())
    }

    /// The gateway leaves a count of nothing out, and writes numbers as text.
    fn count(&self) -> Option<u64> {
        let json = self.json()?;
        json.get("header")?;
        Some(
            json["count"]
                .as_str()
                .map_or(0, |text| text.parse().unwrap_or(0)),
        )
    }
}

#[cfg(test)]
mod tests;

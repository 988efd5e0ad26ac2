//! Single HTTP requests: proxies, certificates, limits, authorization and error statuses.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, WWW_AUTHENTICATE};
use reqwest::{Certificate, Response, StatusCode, redirect};
use url::Url;

use super::FetchError;
use super::host_limiter::{CONNECTIONS, HostLimiters, Permit};
use super::oci::Session;
use super::pace::Pace;
use super::retry::{Failure, LONGEST_WAIT, retry_after};
use kubexm_config::Mirrors;
use kubexm_types::{ShownUrl, Untrusted};

/// Timeout for a read without progress.
pub(super) const STALLED: Duration = Duration::from_secs(30);
/// Timeout for a read without progress from a mirror that downloads the file itself before it answers. The largest
/// files of the catalog have about 150 MB: this is enough for 256 KiB per second.
const ON_DEMAND: Duration = Duration::from_secs(600);
/// Timeout for establishing a connection.
pub(super) const CONNECT: Duration = Duration::from_secs(15);
/// Maximum number of bytes that are read from a registry's error response.
const LARGEST_REFUSAL: usize = 16 * 1024;
/// Maximum number of redirects of a request.
const MOST_REDIRECTS: usize = 10;
/// Maximum size of a file of certificates, in bytes.
const LARGEST_CA: u64 = 4 * 1024 * 1024;

/// An HTTP client with request limits per host.
#[derive(Clone)]
pub(super) struct Client {
    inner: reqwest::Client,
    /// For mirrors that download a file when it is first requested.
    on_demand: reqwest::Client,
    mirrors: Arc<Mirrors>,
    /// For token services, which receive logins.
    tokens: reqwest::Client,
    limiters: HostLimiters,
}

/// How a request authenticates.
#[derive(Clone)]
pub(super) enum Access {
    /// Without credentials.
    Open,
    /// With a registry's token.
    Registry(std::sync::Arc<Session>),
}

/// A request to a token service.
pub(super) enum TokenRequest {
    /// The parameters are in the URL; the value of the header `Authorization`, if there is a login.
    Query(Option<String>),
    /// Fields, which contain a secret.
    Form(String),
}

/// A request.
pub(super) struct GetRequest<'a> {
    /// The name of the content for messages.
    pub label: &'a str,
    pub url: &'a Url,
    pub access: &'a Access,
    pub headers: HeaderMap,
}

/// A successful response; it counts against the host's limit until it is dropped.
pub(super) struct GetResponse {
    pub response: Response,
    pub permit: Permit,
}

impl Client {
    /// Creates a client that trusts the authorities of `mirrors` in addition to the system's. It uses the
    /// environment's proxies (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`) and certificates
    /// (`SSL_CERT_FILE`, `SSL_CERT_DIR`).
    ///
    /// # Errors
    /// Certificates cannot be read, or there are none.
    pub fn new(mirrors: Arc<Mirrors>) -> Result<Self, FetchError> {
        let mut certificates = Vec::new();
        for path in &mirrors.ca {
            certificates.extend(authorities(path)?);
        }
        let build = |redirects: redirect::Policy, stalled: Duration| {
            let builder = reqwest::Client::builder()
                .user_agent(concat!("kubexm/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(CONNECT)
                .read_timeout(stalled)
                .redirect(redirects)
                // The referrer would contain the address of a mirror.
                .referer(false)
                // With HTTP/2, several ranges would share one connection and its throughput.
                .http1_only()
                .tls_certs_merge(certificates.iter().cloned());
            builder.build().map_err(|error| {
                let reason = root_cause(&error);
                FetchError::Resolve(format!(
                    "cannot set up HTTPS: {reason}\nhint: install the package ca-certificates, or name your authority with --ca"
                ))
            })
        };
        let limiters = HostLimiters::new(mirrors.connections.unwrap_or(CONNECTIONS));
        Ok(Self {
            inner: build(encrypted(), STALLED)?,
            on_demand: build(encrypted(), ON_DEMAND)?,
            tokens: build(same_origin(), STALLED)?,
            mirrors,
            limiters,
        })
    }

    /// Sends a request; obtains a token if the registry requires one.
    pub async fn get(&self, ask: &GetRequest<'_>) -> Result<GetResponse, Failure> {
        let session = match ask.access {
            Access::Registry(session) if session.is_at(ask.url) => session,
            _ => {
                return self
                    .send(ask, ask.headers.clone())
                    .await?
                    .or_refused(ask)
                    .await;
            }
        };
        let token = session.authorization().await;
        let mut headers = ask.headers.clone();
        headers.extend(token.clone().map(|token| (AUTHORIZATION, token)));
        let first = self.send(ask, headers).await?;
        if first.response.status() != StatusCode::UNAUTHORIZED {
            return first.or_refused(ask).await;
        }
        let challenge = first.response.headers().get(WWW_AUTHENTICATE).cloned();
        // The token service may be on the same host and must not wait for this request's permission.
        drop(first);
        let renewed = session
            .renew(self, ask.label, challenge.as_ref(), token.as_ref())
            .await?;
        let mut headers = ask.headers.clone();
        headers.insert(AUTHORIZATION, renewed);
        self.send(ask, headers).await?.or_refused(ask).await
    }

    async fn send(&self, ask: &GetRequest<'_>, headers: HeaderMap) -> Result<GetResponse, Failure> {
        let limiter = self.limiters.for_url(ask.url);
        let permit = limiter.acquire().await;
        let client = match self.mirrors.is_on_demand(ask.url.as_str()) {
            true => &self.on_demand,
            false => &self.inner,
        };
        let request = client.get(ask.url.clone()).headers(headers);
        let response = request
            .send()
            .await
            .map_err(|error| broken(ask.label, ask.url, &error))?;
        if matches!(response.status().as_u16(), 429 | 503) {
            // A host that requests a pause of hours is given up.
            let wait = retry_after(response.headers());
            limiter.slow_down(wait.filter(|wait| *wait <= LONGEST_WAIT));
        }
        Ok(GetResponse { response, permit })
    }

    /// Asks a token service. Not limited per host, because the caller may hold a permission.
    pub async fn token(
        &self,
        url: &Url,
        request: TokenRequest,
    ) -> Result<Response, reqwest::Error> {
        let request = match request {
            TokenRequest::Query(authorization) => {
                let request = self.tokens.get(url.clone());
                match authorization {
                    Some(authorization) => request.header(AUTHORIZATION, authorization),
                    None => request,
                }
            }
            TokenRequest::Form(form) => {
                let kind = "application/x-www-form-urlencoded";
                let request = self.tokens.post(url.clone()).body(form);
                request.header(CONTENT_TYPE, kind)
            }
        };
        request.send().await
    }
}

/// A redirect that was not followed.
#[derive(Debug, thiserror::Error)]
enum RefusedRedirect {
    #[error("the server redirects from HTTPS to {0}, which is not encrypted")]
    Unencrypted(ShownUrl),
    #[error("the token service redirects to another server, {0}")]
    Elsewhere(ShownUrl),
    #[error("the server redirects more than {MOST_REDIRECTS} times")]
    TooMany,
}

/// Follows redirects, but not from HTTPS to HTTP.
fn encrypted() -> redirect::Policy {
    redirect::Policy::custom(|attempt| {
        let was_encrypted = attempt.previous().iter().any(|url| url.scheme() == "https");
        if was_encrypted && attempt.url().scheme() != "https" {
            let to = ShownUrl::from(attempt.url());
            return attempt.error(RefusedRedirect::Unencrypted(to));
        }
        match attempt.previous().len() > MOST_REDIRECTS {
            true => attempt.error(RefusedRedirect::TooMany),
            false => attempt.follow(),
        }
    })
}

/// Follows redirects on the same server. A redirect of a form contains the secret.
fn same_origin() -> redirect::Policy {
    redirect::Policy::custom(|attempt| {
        let first = attempt.previous().first().map(Url::origin);
        if first != Some(attempt.url().origin()) {
            let to = ShownUrl::from(attempt.url());
            return attempt.error(RefusedRedirect::Elsewhere(to));
        }
        match attempt.previous().len() > MOST_REDIRECTS {
            true => attempt.error(RefusedRedirect::TooMany),
            false => attempt.follow(),
        }
    })
}

impl GetResponse {
    /// Reads all bytes, at most `limit`.
    pub async fn bytes(self, ask: &GetRequest<'_>, limit: usize) -> Result<Vec<u8>, Failure> {
        let (label, url) = (ask.label, ask.url);
        match read(self.response, limit).await {
            Ok(bytes) => Ok(bytes),
            Err(ReadError::TooLong) => Err(Failure::last(FetchError::Content {
                what: label.to_owned(),
                reason: format!("{} is larger than {limit} bytes", shown(url)),
            })),
            Err(ReadError::TooSlow(reason)) => Err(Failure::last(FetchError::Unreachable {
                what: label.to_owned(),
                url: shown(url),
                reason,
            })),
            Err(ReadError::Broken(error)) => Err(broken(label, url, &error)),
        }
    }

    async fn or_refused(self, ask: &GetRequest<'_>) -> Result<Self, Failure> {
        let status = self.response.status();
        if status.is_success() {
            return Ok(self);
        }
        let wait = retry_after(self.response.headers());
        let hint = match ask.access {
            Access::Open => hint(status).to_owned(),
            Access::Registry(_) => match registry_message(self.response).await {
                Some(reason) => format!("{} (registry: {reason})", registry_hint(status)),
                None => registry_hint(status).to_owned(),
            },
        };
        let hint = match wait.filter(|wait| *wait > LONGEST_WAIT) {
            Some(wait) => format!("{hint}; the server asks to wait {} s", wait.as_secs()),
            None => hint,
        };
        let refused = Box::new(FetchError::Refused {
            what: ask.label.to_owned(),
            url: shown(ask.url),
            status: status.as_u16(),
            hint,
        });
        Err(match status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
                Failure::Again(refused, wait)
            }
            status if status.is_server_error() => Failure::Again(refused, wait),
            _ => Failure::Final(refused),
        })
    }
}

/// Reads the certificates in a PEM file.
pub(super) fn authorities(path: &std::path::Path) -> Result<Vec<Certificate>, FetchError> {
    let wrong = |reason: String| {
        FetchError::Resolve(format!(
            "cannot read the CA certificates in {}: {reason}",
            path.display()
        ))
    };
    let bytes = pem(path).map_err(|error| wrong(error.to_string()))?;
    let certificates =
        Certificate::from_pem_bundle(&bytes).map_err(|error| wrong(root_cause(&error)))?;
    if certificates.is_empty() {
        return Err(wrong("the file has no certificate in PEM".to_owned()));
    }
    Ok(certificates)
}

/// Reads a file of certificates.
pub(super) fn pem(path: &std::path::Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(LARGEST_CA).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Why a response could not be read into memory.
pub(super) enum ReadError {
    /// It has more bytes than the limit.
    TooLong,
    /// The server sends too slowly; the reason.
    TooSlow(String),
    /// The connection broke.
    Broken(reqwest::Error),
}

/// Reads at most `limit` bytes of a response.
pub(super) async fn read(response: Response, limit: usize) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    let pace = Pace::start();
    let mut stream = response.bytes_stream();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(ReadError::Broken)?;
        if bytes.len() + chunk.len() > limit {
            return Err(ReadError::TooLong);
        }
        let in_time = pace.advance(chunk.len() as u64);
        in_time.map_err(ReadError::TooSlow)?;
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Returns an address without user and password.
pub(super) fn shown(url: &Url) -> ShownUrl {
    ShownUrl::from(url)
}

pub(super) fn broken(label: &str, url: &Url, error: &reqwest::Error) -> Failure {
    let mut reason = root_cause(error);
    if error.is_redirect() {
        reason += "\nhint: use an address that does not redirect, or a mirror (--mirrors)";
    }
    let unreachable = FetchError::Unreachable {
        what: label.to_owned(),
        url: shown(url),
        reason,
    };
    match error.is_redirect() {
        true => Failure::last(unreachable),
        false => Failure::again(unreachable),
    }
}

/// Returns the innermost cause, which is the informative one ("dns error", "connection refused").
pub(super) fn root_cause(error: &dyn Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

fn hint(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 | 403 => {
            "check that this network has access; kubexm sends no credentials to this server"
        }
        404 | 410 => "check that this version exists in the project's releases",
        407 => "the proxy requires credentials: set HTTPS_PROXY=http://user:password@host:port",
        429 => "too many requests: wait, or use a mirror (--mirrors)",
        500.. => "the server failed repeatedly: try later, or use a mirror (--mirrors)",
        _ => "the status is unexpected: check the address",
    }
}

fn registry_hint(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 | 403 => "check the image's name, or log in with `docker login`",
        404 => "check that the image and the tag exist",
        429 => "too many requests: wait, log in, or use a mirror (--mirrors)",
        500.. => "the registry failed: try later, or use a mirror (--mirrors)",
        _ => "the registry refused the request: see its log",
    }
}

/// Returns the registry's error message
/// (<https://github.com/opencontainers/distribution-spec/blob/main/spec.md#error-codes>).
async fn registry_message(response: Response) -> Option<String> {
    let bytes = read(response, LARGEST_REFUSAL).await.ok()?;
    let body: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    let reason = body["errors"][0]["message"].as_str()?;
    let reason = Untrusted::one_line(reason, 200).to_string();
    (!reason.is_empty()).then_some(reason)
}

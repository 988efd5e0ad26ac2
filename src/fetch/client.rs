//! Single HTTP requests: limits per host, authorization and error statuses.

use std::sync::Arc;

use reqwest::header::{AUTHORIZATION, HeaderMap, WWW_AUTHENTICATE};
use reqwest::{Response, StatusCode};
use url::Url;

use super::FetchError;
use super::connection::{self, ON_DEMAND, STALLED, authorities, encrypted};
use super::host_limiter::{CONNECTIONS, HostLimiters, Permit};
use super::response::{ReadError, broken, read, shown};
use super::retry::{Failure, LONGEST_WAIT, retry_after};
use super::session::Session;
use super::token_client::TokenClient;
use kubexm_config::Mirrors;
use kubexm_types::Untrusted;

/// Maximum number of bytes that are read from a registry's error response.
const LARGEST_REFUSAL: usize = 16 * 1024;

/// An HTTP client with request limits per host.
#[derive(Clone)]
pub(super) struct Client {
    inner: reqwest::Client,
    /// For mirrors that download a file when it is first requested.
    on_demand: reqwest::Client,
    mirrors: Arc<Mirrors>,
    tokens: TokenClient,
    limiters: HostLimiters,
}

/// How a request authenticates.
#[derive(Clone)]
pub(super) enum Access {
    /// Without credentials.
    Open,
    /// With a registry's token.
    Registry(Arc<Session>),
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
    /// environment's proxies and certificates.
    ///
    /// # Errors
    /// Certificates cannot be read, or there are none.
    pub fn new(mirrors: Arc<Mirrors>) -> Result<Self, FetchError> {
        let mut certificates = Vec::new();
        for path in &mirrors.ca {
            certificates.extend(authorities(path)?);
        }
        let limiters = HostLimiters::new(mirrors.connections.unwrap_or(CONNECTIONS));
        Ok(Self {
            inner: connection::client(encrypted(), STALLED, &certificates)?,
            on_demand: connection::client(encrypted(), ON_DEMAND, &certificates)?,
            tokens: TokenClient::new(&certificates)?,
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
            .renew(&self.tokens, ask.label, challenge.as_ref(), token.as_ref())
            .await?;
        let mut headers = ask.headers.clone();
        headers.insert(AUTHORIZATION, renewed);
        self.send(ask, headers).await?.or_refused(ask).await
    }

    async fn send(&self, ask: &GetRequest<'_>, headers: HeaderMap) -> Result<GetResponse, Failure> {
        let limiter = self.limiters.for_url(ask.url);
        let permit = limiter.acquire().await;
        let client = if self.mirrors.is_on_demand(ask.url.as_str()) {
            &self.on_demand
        } else {
            &self.inner
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
}

impl GetResponse {
    /// Reads all bytes, at most `limit`.
    pub async fn bytes(self, ask: &GetRequest<'_>, limit: usize) -> Result<Vec<u8>, Failure> {
        let (label, url) = (ask.label, ask.url);
        match read(self.response, limit).await {
            Ok(bytes) => Ok(bytes),
            Err(ReadError::TooLong) => Err(Failure::last(FetchError::Content {
                what: label.to_owned(),
                reason: format!("{} is larger than {limit} bytes", shown(url)).into(),
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

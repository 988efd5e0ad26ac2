//! Authorization for a repository: the registry's challenge, and the token that answers it
//! (<https://distribution.github.io/distribution/spec/auth/token/>).

mod challenge;
mod realm;

use std::sync::Arc;

use oci_client::Reference;
use reqwest::StatusCode;
use reqwest::header::HeaderValue;
use serde::Deserialize;
use tokio::sync::{Mutex, OnceCell};
use url::Url;

use crate::FetchError;
use crate::credentials::{DockerCredentials, Login};
use crate::response::{ReadError, read, root_cause, shown};
use crate::retry::Failure;
use crate::token_client::{TokenClient, TokenRequest};
use challenge::Challenge;
pub(crate) use realm::check_before_login;

/// Maximum size of a token service's response, in bytes.
const LARGEST_TOKEN: usize = 1024 * 1024;

/// The authorization to read one repository of one registry.
pub struct Session {
    registry: Url,
    reference: Reference,
    credentials: Arc<DockerCredentials>,
    login: OnceCell<Option<Login>>,
    authorization: Mutex<Option<HeaderValue>>,
}

#[derive(Deserialize)]
struct Granted {
    // A service may send both with the same value.
    access_token: Option<String>,
    token: Option<String>,
}

impl Session {
    /// Creates a session without a token; it obtains one when the registry requires it.
    pub fn new(registry: Url, reference: Reference, credentials: Arc<DockerCredentials>) -> Self {
        Self {
            registry,
            reference,
            credentials,
            login: OnceCell::new(),
            authorization: Mutex::default(),
        }
    }

    /// Whether an address is the registry's own. Other servers must not receive its tokens.
    pub fn is_at(&self, url: &Url) -> bool {
        self.registry.origin() == url.origin()
    }

    /// Returns the `Authorization` header, if the registry has required one.
    pub async fn authorization(&self) -> Option<HeaderValue> {
        self.authorization.lock().await.clone()
    }

    /// Answers a challenge. `stale` is the header that the registry did not accept.
    pub(crate) async fn renew(
        &self,
        client: &TokenClient,
        label: &str,
        challenge: Option<&HeaderValue>,
        stale: Option<&HeaderValue>,
    ) -> Result<HeaderValue, Failure> {
        let mut current = self.authorization.lock().await;
        if let Some(newer) = current.as_ref().filter(|current| Some(*current) != stale) {
            return Ok(newer.clone());
        }
        let text = challenge.and_then(|value| value.to_str().ok());
        let challenge = text.and_then(Challenge::parse);
        let login = self.login().await;
        let value = match (challenge, login) {
            (Some(Challenge::Basic), Some(Login::Password { user, password })) => {
                basic(user, password)
            }
            (Some(Challenge::Bearer { realm, service }), login) => {
                let checked = realm::check(&self.registry, &realm, login.is_some());
                checked.map_err(|reason| Failure::last(self.refused(label, &reason)))?;
                let service = service.as_deref().unwrap_or_default();
                self.token(client, label, (&realm, service), login).await?
            }
            _ => {
                return Err(Failure::last(
                    self.refused(label, "kubexm has no login for it"),
                ));
            }
        };
        let mut value = HeaderValue::from_str(&value).map_err(|_| {
            Failure::last(self.refused(label, "its token service returned an invalid token"))
        })?;
        value.set_sensitive(true);
        *current = Some(value.clone());
        Ok(value)
    }

    async fn login(&self) -> Option<&Login> {
        let host = self.reference.registry();
        let found = self
            .login
            .get_or_init(|| self.credentials.login(host))
            .await;
        found.as_ref()
    }

    /// Obtains a token for the repository: anonymously, with a password, or in exchange for an identity token
    /// (<https://distribution.github.io/distribution/spec/auth/oauth/>).
    async fn token(
        &self,
        client: &TokenClient,
        label: &str,
        (realm, service): (&Url, &str),
        login: Option<&Login>,
    ) -> Result<String, Failure> {
        let scope = format!("repository:{}:pull", self.reference.repository());
        let request = match login {
            Some(Login::Identity(identity)) => {
                let form = url::form_urlencoded::Serializer::new(String::new())
                    .append_pair("grant_type", "refresh_token")
                    .append_pair("service", service)
                    .append_pair("scope", &scope)
                    .append_pair("client_id", "kubexm")
                    .append_pair("refresh_token", identity)
                    .finish();
                TokenRequest::Form(form)
            }
            Some(Login::Password { user, password }) => {
                TokenRequest::Query(Some(basic(user, password)))
            }
            None => TokenRequest::Query(None),
        };
        let mut place = realm.clone();
        if matches!(request, TokenRequest::Query(_)) {
            let mut query = place.query_pairs_mut();
            query.append_pair("scope", &scope);
            if !service.is_empty() {
                query.append_pair("service", service);
            }
        }
        let lost = |error: &reqwest::Error| Failure::again(self.unreachable(error));
        let response = client.ask(&place, request).await;
        let response = response.map_err(|error| lost(&error))?;
        match (response.status(), login) {
            (StatusCode::OK, _) => {}
            (status, _) if status.is_server_error() || status.as_u16() == 429 => {
                let reason = format!("its token service answers {status}");
                return Err(Failure::again(self.refused(label, &reason)));
            }
            (_, Some(_)) => {
                let reason = "the registry refuses the stored login";
                return Err(Failure::last(self.refused(label, reason)));
            }
            (_, None) => {
                let reason = "the registry gives no token to anonymous clients";
                return Err(Failure::last(self.refused(label, reason)));
            }
        }
        let body = match read(response, LARGEST_TOKEN).await {
            Ok(body) => body,
            Err(ReadError::Broken(error)) => return Err(lost(&error)),
            Err(ReadError::TooLong | ReadError::TooSlow(_)) => Vec::new(),
        };
        let granted: Granted = serde_json::from_slice(&body).map_err(|_| {
            Failure::last(self.refused(label, "its token service returned no token"))
        })?;
        let token = granted.access_token.or(granted.token);
        let token = token.ok_or_else(|| {
            Failure::last(self.refused(label, "its token service returned no token"))
        })?;
        Ok(format!("Bearer {token}"))
    }

    fn refused(&self, label: &str, reason: &str) -> FetchError {
        FetchError::Refused {
            what: label.to_owned(),
            url: shown(&self.registry),
            status: StatusCode::UNAUTHORIZED.as_u16(),
            hint: format!("check the image's name, or log in with `docker login` ({reason})"),
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> FetchError {
        FetchError::Unreachable {
            what: format!("a token for {}", self.reference),
            url: shown(&self.registry),
            reason: root_cause(error).into(),
        }
    }
}

fn basic(user: &str, password: &str) -> String {
    use base64::Engine;
    let pair = format!("{user}:{password}");
    let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
    format!("Basic {encoded}")
}

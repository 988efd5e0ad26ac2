//! Authorization for a repository: the registry's challenge, and the token that answers it
//! (<https://distribution.github.io/distribution/spec/auth/token/>).

use std::sync::Arc;

use oci_client::secrets::RegistryAuth;
use oci_client::{Reference, RegistryOperation};
use reqwest::StatusCode;
use reqwest::header::HeaderValue;
use serde::Deserialize;
use tokio::sync::{Mutex, OnceCell};
use url::Url;

use crate::FetchError;
use crate::client::{Client, read, root_cause};
use crate::credentials::{DockerCredentials, Login};
use crate::retry::Failure;

/// Maximum size of a token service's response, in bytes.
const LARGEST_TOKEN: usize = 1024 * 1024;

/// The authorization to read one repository of one registry.
pub struct Session {
    registry: Url,
    reference: Reference,
    tokens: oci_client::Client,
    credentials: Arc<DockerCredentials>,
    login: OnceCell<Option<Login>>,
    authorization: Mutex<Option<HeaderValue>>,
}

#[derive(Deserialize)]
struct Granted {
    #[serde(alias = "token")]
    access_token: String,
}

impl Session {
    /// Creates a session without a token; it obtains one when the registry requires it.
    pub fn new(
        registry: Url,
        reference: Reference,
        tokens: oci_client::Client,
        credentials: Arc<DockerCredentials>,
    ) -> Self {
        Self {
            registry,
            reference,
            tokens,
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
        client: &Client,
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
            (Some(Challenge::Bearer { realm, service }), Some(Login::Identity(token))) => {
                self.refresh(client, label, &realm, service.as_deref(), token)
                    .await?
            }
            (Some(Challenge::Bearer { .. }), login) => self.token(label, login).await?,
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

    /// Obtains a token for the repository, anonymously or with a password.
    async fn token(&self, label: &str, login: Option<&Login>) -> Result<String, Failure> {
        let auth = match login {
            Some(Login::Password { user, password }) => {
                RegistryAuth::Basic(user.clone(), password.clone())
            }
            _ => RegistryAuth::Anonymous,
        };
        let pull = RegistryOperation::Pull;
        match self.tokens.auth(&self.reference, &auth, pull).await {
            Ok(Some(token)) => Ok(format!("Bearer {token}")),
            Ok(None) => Err(Failure::last(
                self.refused(label, "the registry does not offer a token"),
            )),
            Err(oci_client::errors::OciDistributionError::RequestError(error)) => {
                Err(Failure::again(self.unreachable(&error)))
            }
            Err(_) if login.is_some() => Err(Failure::last(
                self.refused(label, "the registry refuses the stored login"),
            )),
            // The service may only be overloaded: the client does not return the status.
            Err(_) => Err(Failure::again(
                self.refused(label, "the registry gives no token to anonymous clients"),
            )),
        }
    }

    /// Exchanges an identity token for an access token
    /// (<https://distribution.github.io/distribution/spec/auth/oauth/>).
    async fn refresh(
        &self,
        client: &Client,
        label: &str,
        realm: &Url,
        service: Option<&str>,
        identity: &str,
    ) -> Result<String, Failure> {
        if realm.scheme() != "https" && self.registry.scheme() == "https" {
            let reason = "the registry requests the login without encryption";
            return Err(Failure::last(self.refused(label, reason)));
        }
        let scope = format!("repository:{}:pull", self.reference.repository());
        let form = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", "refresh_token")
            .append_pair("service", service.unwrap_or_default())
            .append_pair("scope", &scope)
            .append_pair("client_id", "kubexm")
            .append_pair("refresh_token", identity)
            .finish();
        let lost = |error: &reqwest::Error| Failure::again(self.unreachable(error));
        let response = client.post_form(realm, form).await;
        let response = response.map_err(|error| lost(&error))?;
        if response.status() != StatusCode::OK {
            let reason = "the registry refuses the stored login";
            return Err(Failure::last(self.refused(label, reason)));
        }
        let body = read(response, LARGEST_TOKEN).await;
        let body = body.map_err(|error| lost(&error))?.unwrap_or_default();
        let granted: Granted = serde_json::from_slice(&body).map_err(|_| {
            Failure::last(self.refused(label, "its token service returned no token"))
        })?;
        Ok(format!("Bearer {}", granted.access_token))
    }

    fn refused(&self, label: &str, reason: &str) -> FetchError {
        FetchError::Refused {
            what: label.to_owned(),
            url: self.registry.to_string(),
            status: StatusCode::UNAUTHORIZED.as_u16(),
            hint: format!("check the image's name, or log in with `docker login` ({reason})"),
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> FetchError {
        FetchError::Unreachable {
            what: format!("a token for {}", self.reference),
            url: self.registry.to_string(),
            reason: root_cause(error),
        }
    }
}

fn basic(user: &str, password: &str) -> String {
    use base64::Engine;
    let pair = format!("{user}:{password}");
    let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
    format!("Basic {encoded}")
}

/// The challenge of a registry (RFC 9110, 11.6.1).
#[derive(Debug, PartialEq, Eq)]
enum Challenge {
    Basic,
    Bearer { realm: Url, service: Option<String> },
}

impl Challenge {
    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let realm = Url::parse(&parameter(rest, "realm")?).ok()?;
        matches!(realm.scheme(), "https" | "http").then_some(())?;
        let service = parameter(rest, "service");
        Some(Self::Bearer { realm, service })
    }
}

/// Returns a parameter's value, quoted or not.
fn parameter(text: &str, name: &str) -> Option<String> {
    let mut rest = text;
    loop {
        let (key, after) = rest.split_once('=')?;
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(',').unwrap_or((after, "")),
        };
        if key.trim().eq_ignore_ascii_case(name) {
            return Some(value.to_owned());
        }
        rest = next.trim_start_matches([',', ' ']);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_of_real_registries_are_understood() {
        let docker = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push""#;
        let Some(Challenge::Bearer { realm, service }) = Challenge::parse(docker) else {
            panic!("{docker}");
        };
        assert_eq!(realm.as_str(), "https://auth.docker.io/token");
        assert_eq!(service.as_deref(), Some("registry.docker.io"));
        let plain = "bearer service=a, realm=http://127.0.0.1:5000/auth";
        assert!(matches!(
            Challenge::parse(plain),
            Some(Challenge::Bearer { service: Some(s), .. }) if s == "a"
        ));
        assert_eq!(
            Challenge::parse(r#"Basic realm="Registry""#),
            Some(Challenge::Basic)
        );
        for wrong in [
            "",
            "Bearer",
            "Bearer realm=\"file:///etc/passwd\"",
            "Digest realm=\"x\"",
            "Bearer realm=\"unclosed",
        ] {
            assert_eq!(Challenge::parse(wrong), None, "{wrong}");
        }
    }
}

//! Which token service receives a login.
//!
//! A registry names its token service in a challenge
//! (<https://distribution.github.io/distribution/spec/auth/token/>). Docker, containerd and go-containerregistry
//! send the login to every service that a registry names. kubexm sends it only over HTTPS, and only to the host of
//! the registry, to its parent domain, or to hosts below one of them. Docker Hub (`registry-1.docker.io` and
//! `auth.docker.io`), GitLab (`registry.gitlab.com` and `gitlab.com`) and the registries of clouds are such pairs.

use reqwest::header::WWW_AUTHENTICATE;
use reqwest::{Certificate, StatusCode, redirect};
use url::{Host, Url};

use super::challenge::Challenge;
use crate::FetchError;
use crate::connection::{CONNECT, STALLED};
use kubexm_types::ShownUrl;

/// Asks a registry for its challenge before a library sends the login to the token service in it.
///
/// # Errors
/// The token service must not receive the login. A registry that does not answer is not an error: the next
/// request reports it.
pub(crate) async fn check_before_login(registry: &Url, ca: &[Vec<u8>]) -> Result<(), FetchError> {
    let certificates = ca
        .iter()
        .filter_map(|pem| Certificate::from_pem_bundle(pem).ok());
    let client = reqwest::Client::builder()
        .connect_timeout(CONNECT)
        .timeout(STALLED)
        .redirect(redirect::Policy::none())
        .tls_certs_merge(certificates.flatten())
        .build()
        .map_err(|error| FetchError::resolve(format!("cannot set up HTTPS: {error}")))?;
    let Ok(place) = registry.join("/v2/") else {
        return Ok(());
    };
    let Ok(response) = client.get(place).send().await else {
        return Ok(());
    };
    let challenge = response.headers().get(WWW_AUTHENTICATE);
    let challenge = challenge.and_then(|value| Challenge::parse(value.to_str().ok()?));
    let Some(Challenge::Bearer { realm, .. }) = challenge else {
        return Ok(());
    };
    check(registry, &realm, true).map_err(|hint| FetchError::Refused {
        what: "the login".to_owned(),
        url: ShownUrl::from(registry),
        status: StatusCode::UNAUTHORIZED.as_u16(),
        hint,
    })
}

/// Checks that a token service may be asked.
///
/// # Errors
/// It must not be asked; the text completes "the registry refuses the login".
pub(super) fn check(registry: &Url, realm: &Url, has_login: bool) -> Result<(), String> {
    let service = ShownUrl::from(realm);
    if registry.scheme() == "https" && realm.scheme() != "https" {
        return Err(format!(
            "the registry's token service {service} does not use HTTPS"
        ));
    }
    if has_login && !is_of_same_publisher(registry, realm) {
        return Err(format!(
            "the registry's token service {service} is in another domain, and kubexm does not send it the login"
        ));
    }
    Ok(())
}

/// Whether both hosts are equal, or `realm` is at or below the registry's host or its parent domain.
fn is_of_same_publisher(registry: &Url, realm: &Url) -> bool {
    match (registry.host(), realm.host()) {
        (Some(Host::Domain(registry)), Some(Host::Domain(realm))) => {
            let is_below = |domain: &str| {
                realm == domain || realm.strip_suffix(domain).is_some_and(|r| r.ends_with('.'))
            };
            // The parent of `quay.io` is a public suffix.
            let parent = registry.split_once('.').map(|(_, parent)| parent);
            is_below(registry)
                || parent
                    .filter(|parent| parent.contains('.'))
                    .is_some_and(is_below)
        }
        (Some(registry), Some(realm)) => registry == realm,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(registry: &str, realm: &str) -> bool {
        check(&registry.parse().unwrap(), &realm.parse().unwrap(), true).is_ok()
    }

    #[test]
    fn token_services_of_real_registries_get_a_login() {
        for (registry, realm) in [
            (
                "https://registry-1.docker.io",
                "https://auth.docker.io/token",
            ),
            ("https://quay.io", "https://quay.io/v2/auth"),
            ("https://ghcr.io", "https://ghcr.io/token"),
            ("https://registry.gitlab.com", "https://gitlab.com/jwt/auth"),
            (
                "https://registry.example.com",
                "https://gitlab.example.com/jwt/auth",
            ),
            (
                "https://registry.digitalocean.com",
                "https://api.digitalocean.com/v2/registry/auth",
            ),
            (
                "https://europe-docker.pkg.dev",
                "https://europe-docker.pkg.dev/v2/token",
            ),
            (
                "https://registry.cn-hangzhou.aliyuncs.com",
                "https://dockerauth.cn-hangzhou.aliyuncs.com/auth",
            ),
            (
                "https://harbor.site:8443",
                "https://harbor.site:8443/service/token",
            ),
            (
                "https://registry.site:5000",
                "https://registry.site:5001/auth",
            ),
            ("https://10.0.0.7:5000", "https://10.0.0.7/auth"),
            ("http://127.0.0.1:5000", "http://127.0.0.1:5001/auth"),
            ("http://127.0.0.1:5000", "https://127.0.0.1:5001/auth"),
        ] {
            assert!(accepts(registry, realm), "{registry} {realm}");
        }
    }

    #[test]
    fn other_hosts_and_http_get_no_login() {
        for (registry, realm) in [
            (
                "https://registry-1.docker.io",
                "http://auth.docker.io/token",
            ),
            ("https://quay.io", "https://evil.io/v2/auth"),
            ("https://quay.io", "https://notquay.io/v2/auth"),
            (
                "https://registry.example.com",
                "https://example.com.evil.org/auth",
            ),
            (
                "https://registry.example.com",
                "https://badexample.com/auth",
            ),
            ("https://10.0.0.7:5000", "https://10.0.0.8/auth"),
            ("https://1.0.0.7:5000", "https://2.0.0.7/auth"),
            ("http://127.0.0.1:5000", "http://127.0.0.2:5001/auth"),
        ] {
            assert!(!accepts(registry, realm), "{registry} {realm}");
        }
        let (registry, realm) = ("https://a.example", "http://a.example/token");
        let anonymous = check(&registry.parse().unwrap(), &realm.parse().unwrap(), false);
        assert!(anonymous.is_err(), "a token without encryption");
        let elsewhere = "https://b.example/token".parse().unwrap();
        assert!(check(&registry.parse().unwrap(), &elsewhere, false).is_ok());
    }
}

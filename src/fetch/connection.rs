//! How connections are made: timeouts, redirects and certificate authorities.

use std::path::Path;
use std::time::Duration;

use reqwest::{Certificate, redirect};
use url::Url;

use super::FetchError;
use super::response::root_cause;
use kubexm_types::{Message, ShownUrl};

/// Timeout for a read without progress.
pub(super) const STALLED: Duration = Duration::from_secs(30);
/// Timeout for a read without progress from a mirror that downloads the file itself before it answers. The largest
/// files of the catalog have about 150 MB: this is enough for 256 KiB per second.
pub(super) const ON_DEMAND: Duration = Duration::from_secs(600);
/// Timeout for establishing a connection.
pub(super) const CONNECT: Duration = Duration::from_secs(15);
/// Maximum number of redirects of a request.
const MOST_REDIRECTS: usize = 10;
/// Maximum size of a file of certificates, in bytes.
const LARGEST_CA: u64 = 4 * 1024 * 1024;

/// Creates a client with this policy for redirects and this timeout for a read without progress. It uses the
/// environment's proxies (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`) and certificates (`SSL_CERT_FILE`,
/// `SSL_CERT_DIR`).
///
/// # Errors
/// The system has no certificates.
pub(super) fn client(
    redirects: redirect::Policy,
    stalled: Duration,
    certificates: &[Certificate],
) -> Result<reqwest::Client, FetchError> {
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
        let message = Message::new(format!("cannot set up HTTPS: {reason}"));
        FetchError::Resolve(
            message.hint("install the package ca-certificates, or name your authority with --ca"),
        )
    })
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
pub(super) fn encrypted() -> redirect::Policy {
    redirect::Policy::custom(|attempt| {
        let was_encrypted = attempt.previous().iter().any(|url| url.scheme() == "https");
        if was_encrypted && attempt.url().scheme() != "https" {
            let to = ShownUrl::from(attempt.url());
            return attempt.error(RefusedRedirect::Unencrypted(to));
        }
        if attempt.previous().len() > MOST_REDIRECTS {
            attempt.error(RefusedRedirect::TooMany)
        } else {
            attempt.follow()
        }
    })
}

/// Follows redirects on the same server. A redirect of a form contains the secret.
pub(super) fn same_origin() -> redirect::Policy {
    redirect::Policy::custom(|attempt| {
        let first = attempt.previous().first().map(Url::origin);
        if first != Some(attempt.url().origin()) {
            let to = ShownUrl::from(attempt.url());
            return attempt.error(RefusedRedirect::Elsewhere(to));
        }
        if attempt.previous().len() > MOST_REDIRECTS {
            attempt.error(RefusedRedirect::TooMany)
        } else {
            attempt.follow()
        }
    })
}

/// Reads the certificates in a PEM file.
pub(super) fn authorities(path: &Path) -> Result<Vec<Certificate>, FetchError> {
    let wrong = |reason: String| {
        FetchError::resolve(format!(
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
fn pem(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(LARGEST_CA).read_to_end(&mut bytes)?;
    Ok(bytes)
}

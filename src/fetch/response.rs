//! Reads responses, and describes why there is none.

use std::error::Error;
use std::io;

use futures_util::StreamExt;
use reqwest::Response;
use rustls::InvalidMessage;
use url::Url;

use super::FetchError;
use super::pace::Pace;
use super::retry::Failure;
use kubexm_types::{Message, ShownUrl};

/// Why a response could not be read into memory.
pub(super) enum ReadError {
    /// It has more bytes than the limit.
    TooLong,
    /// The server sends too slowly; the reason.
    TooSlow(Message),
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
    let redirected = "use an address that does not redirect, or a mirror (--mirrors)";
    let has_no_tls = has_no_tls(error);
    let reason = if has_no_tls {
        Message::new("the server answers without TLS").hint(
            "if it is one of your site, name it with http:// in a mirror file (--mirrors): kubexm then uses no encryption",
        )
    } else {
        Message::new(root_cause(error)).or_hint(error.is_redirect().then_some(redirected))
    };
    let unreachable = FetchError::Unreachable {
        what: label.to_owned(),
        url: shown(url),
        reason,
    };
    if error.is_redirect() || has_no_tls {
        Failure::last(unreachable)
    } else {
        Failure::again(unreachable)
    }
}

/// Whether a server answered the begin of TLS with something else, such as HTTP.
fn has_no_tls(error: &(dyn Error + 'static)) -> bool {
    if let Some(error) = error.downcast_ref() {
        return matches!(
            error,
            rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)
        );
    }
    // The source of such an error is that of the error in it.
    let inner = error.downcast_ref::<io::Error>();
    match inner.and_then(io::Error::get_ref) {
        Some(inner) => has_no_tls(inner),
        None => error.source().is_some_and(has_no_tls),
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

//! Reads responses, and describes why there is none.

use std::error::Error;

use futures_util::StreamExt;
use reqwest::Response;
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
    let hint = error.is_redirect().then_some(redirected);
    let reason = Message::new(root_cause(error)).or_hint(hint);
    let unreachable = FetchError::Unreachable {
        what: label.to_owned(),
        url: shown(url),
        reason,
    };
    if error.is_redirect() {
        Failure::last(unreachable)
    } else {
        Failure::again(unreachable)
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

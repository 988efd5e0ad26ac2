//! One HTTP/1.1 request over TLS, on a connection that a host opens.

use std::error::Error as _;
use std::io;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING, WWW_AUTHENTICATE};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use kubexm_host::forward::{CONNECT_TIMEOUT, TunnelStream};

/// The largest body in bytes. Real answers have a few hundred bytes, and a hostile one must not exhaust
/// memory.
const MAX_BODY: usize = 64 * 1024;

/// The response to a request. Its body is truncated to 64 KiB.
#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// Whether the server asks for a token: a challenge has the scheme `Bearer`
    /// (<https://www.rfc-editor.org/rfc/rfc6750#section-3>).
    pub asks_for_token: bool,
    pub body: Vec<u8>,
}

/// The reason why there is no response.
#[derive(Debug)]
pub enum ExchangeError {
    /// The server did not answer within [`CONNECT_TIMEOUT`].
    TimedOut,
    /// The name is not valid in a certificate.
    Name(String),
    /// The TLS handshake failed.
    Tls(rustls::Error),
    /// The connection ended before the end of the response.
    Disconnected(String),
    /// The server does not speak HTTP.
    NotHttp,
}

/// Sends a request to the server at the other end of `stream`. Its certificate must be valid for `name`.
///
/// # Errors
/// There is no complete response.
pub async fn send(
    config: &Arc<ClientConfig>,
    stream: Box<dyn TunnelStream>,
    name: &str,
    request: Request<Full<Bytes>>,
) -> Result<Response, ExchangeError> {
    let server = ServerName::try_from(name.to_owned())
        .map_err(|error| ExchangeError::Name(format!("{name}: {error}")))?;
    let exchange = async {
        let connector = TlsConnector::from(Arc::clone(config));
        let stream = connector.connect(server, stream).await;
        request_over(stream.map_err(|error| from_io(&error))?, request).await
    };
    let response = tokio::time::timeout(CONNECT_TIMEOUT, exchange).await;
    response.unwrap_or(Err(ExchangeError::TimedOut))
}

/// Sends a request over an open connection and reads the response.
async fn request_over<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    request: Request<Full<Bytes>>,
) -> Result<Response, ExchangeError> {
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| from_hyper(&error))?;
    let answer = async {
        let response = sender.send_request(request).await;
        let response = response.map_err(|error| from_hyper(&error))?;
        let status = response.status().as_u16();
        let headers = response.headers();
        let has_length = [CONTENT_LENGTH, TRANSFER_ENCODING]
            .iter()
            .any(|name| headers.contains_key(name));
        let asks_for_token = headers.get_all(WWW_AUTHENTICATE).iter().any(is_bearer);
        let body = body(response.into_body(), has_length).await?;
        Ok(Response {
            status,
            asks_for_token,
            body,
        })
    };
    // The connection future moves the bytes, and may end before the response does.
    match select(pin!(answer), pin!(connection)).await {
        Either::Left((answer, _)) => answer,
        Either::Right((_, answer)) => answer.await,
    }
}

/// Returns whether one of the challenges in a header has the scheme `Bearer`. Commas separate challenges, and also the
/// parameters of a challenge (<https://www.rfc-editor.org/rfc/rfc9110#section-11.6.1>).
fn is_bearer(challenges: &HeaderValue) -> bool {
    let mut is_quoted = false;
    let text = String::from_utf8_lossy(challenges.as_bytes());
    let mut parts = text.split(|character| {
        is_quoted ^= character == '"';
        character == ',' && !is_quoted
    });
    parts.any(|part| {
        let scheme = part.split_whitespace().next();
        scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("Bearer"))
    })
}

/// Reads a body. If the end of the connection ends it, TLS's `close_notify` may be missing, because some
/// servers do not send it.
async fn body(mut incoming: Incoming, has_length: bool) -> Result<Vec<u8>, ExchangeError> {
    let mut bytes = Vec::new();
    while let Some(frame) = incoming.frame().await {
        match frame {
            Ok(frame) => bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
            Err(error) if !has_length && is_truncated(&error) => break,
            Err(error) => return Err(from_hyper(&error)),
        }
        if bytes.len() >= MAX_BODY {
            bytes.truncate(MAX_BODY);
            break;
        }
    }
    Ok(bytes)
}

fn is_truncated(error: &hyper::Error) -> bool {
    let inner = error.source().and_then(|source| source.downcast_ref());
    inner.is_some_and(|error: &io::Error| error.kind() == io::ErrorKind::UnexpectedEof)
}

fn from_hyper(error: &hyper::Error) -> ExchangeError {
    let inner = error.source().and_then(|source| source.downcast_ref());
    match inner {
        _ if error.is_parse() => ExchangeError::NotHttp,
        Some(inner) => from_io(inner),
        None => ExchangeError::Disconnected(error.to_string()),
    }
}

fn from_io(error: &io::Error) -> ExchangeError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    match inner {
        Some(tls) => ExchangeError::Tls(rustls::Error::clone(tls)),
        None => ExchangeError::Disconnected(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Sends a request to a server that reads it, writes `answer` and closes the connection.
    async fn exchanged(method: &str, answer: &'static str) -> Result<Response, ExchangeError> {
        let (near, mut far) = tokio::io::duplex(1024);
        let server = tokio::spawn(async move {
            let mut request = vec![0; 1024];
            let count = far.read(&mut request).await.unwrap();
            far.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8(request[..count].to_vec()).unwrap()
        });
        let request = Request::builder()
            .method(method)
            .uri("/v2/")
            .header("Host", "registry.example");
        let answer = request_over(near, request.body(Full::default()).unwrap()).await;
        let received = server.await.unwrap();
        assert!(
            received.starts_with(&format!("{method} /v2/ HTTP/1.1\r\n")),
            "{received}"
        );
        answer
    }

    #[tokio::test]
    async fn every_kind_of_body_is_read() {
        for (status, answer) in [
            (200, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
            (
                200,
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
            ),
            (
                401,
                "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}",
            ),
            (404, "HTTP/1.0 404 Not Found\r\n\r\n{}"),
            (
                503,
                "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n{}",
            ),
        ] {
            let body = b"{}".to_vec();
            assert_eq!(
                exchanged("GET", answer).await.unwrap(),
                Response {
                    status,
                    asks_for_token: false,
                    body
                }
            );
        }
        let head = exchanged("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 700\r\n\r\n").await;
        assert_eq!(
            head.unwrap(),
            Response {
                status: 200,
                asks_for_token: false,
                body: Vec::new()
            }
        );
    }

    #[test]
    fn server_asks_for_a_token_with_a_challenge_of_its_own() {
        for (challenges, expected) in [
            (
                "Bearer realm=\"https://auth.example/token\",service=\"registry\"",
                true,
            ),
            ("bearer", true),
            ("Basic realm=\"a\", Bearer realm=\"b\"", true),
            ("Basic realm=\"a, Bearer b\"", false),
            ("Basic realm=Bearer", false),
            ("", false),
        ] {
            let value = HeaderValue::from_static(challenges);
            assert_eq!(is_bearer(&value), expected, "{challenges}");
        }
    }

    #[tokio::test]
    async fn incomplete_response_is_an_error() {
        for answer in [
            "",
            "HTTP/1.1 200 OK\r\nContent-",
            "HTTP/1.1 200 OK\r\nContent-Length: 700\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
        ] {
            let broken = exchanged("GET", answer).await;
            assert!(
                matches!(broken, Err(ExchangeError::Disconnected(_))),
                "{answer}: {broken:?}"
            );
        }
        let foreign = exchanged("GET", "SSH-2.0-OpenSSH_9.2\r\n").await;
        assert!(
            matches!(foreign, Err(ExchangeError::NotHttp)),
            "{foreign:?}"
        );
    }

    #[tokio::test]
    async fn large_body_is_truncated() {
        let large = format!("HTTP/1.0 200 OK\r\n\r\n{}", "x".repeat(MAX_BODY + 1));
        let (near, mut far) = tokio::io::duplex(1024);
        let server = tokio::spawn(async move {
            // The client stops reading before the end.
            let _ = far.write_all(large.as_bytes()).await;
        });
        let request = Request::builder().uri("/").body(Full::default()).unwrap();
        assert_eq!(
            request_over(near, request).await.unwrap().body.len(),
            MAX_BODY
        );
        server.await.unwrap();
    }
}

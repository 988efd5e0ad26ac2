//! One HTTP/1.1 request over a connection that a host makes, inside TLS.

use std::error::Error as _;
use std::io;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use kubexm_host::forward::{LIMIT, Line};

/// The answers that are read have a few hundred bytes; a hostile one must not fill the memory.
const LARGEST: usize = 64 * 1024;

/// An answer. Its body is cut off at 64 KiB.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Failure {
    /// No answer in time.
    Silent,
    /// The name does not fit into a certificate.
    Name(String),
    /// TLS was refused, by one side or the other.
    Tls(rustls::Error),
    /// The connection broke before or within the answer.
    Broken(String),
    /// The other side does not speak HTTP.
    Foreign,
}

/// Asks the server at the other end of `line`, whose certificate must name `name`.
pub async fn ask(
    config: &Arc<ClientConfig>,
    line: Box<dyn Line>,
    name: &str,
    request: Request<Full<Bytes>>,
) -> Result<Answer, Failure> {
    let server = ServerName::try_from(name.to_owned())
        .map_err(|error| Failure::Name(format!("{name}: {error}")))?;
    let exchange = async {
        let connector = TlsConnector::from(Arc::clone(config));
        let stream = connector.connect(server, line).await;
        over(stream.map_err(|error| failure(&error))?, request).await
    };
    let answer = tokio::time::timeout(LIMIT, exchange).await;
    answer.unwrap_or(Err(Failure::Silent))
}

/// Sends a request over an open connection and reads the answer.
async fn over<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    request: Request<Full<Bytes>>,
) -> Result<Answer, Failure> {
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| of_hyper(&error))?;
    let answer = async {
        let response = sender.send_request(request).await;
        let response = response.map_err(|error| of_hyper(&error))?;
        let status = response.status().as_u16();
        let headers = response.headers();
        let ends_itself = [CONTENT_LENGTH, TRANSFER_ENCODING]
            .iter()
            .any(|name| headers.contains_key(name));
        let body = body(response.into_body(), ends_itself).await?;
        Ok(Answer { status, body })
    };
    // The connection moves the bytes while the answer is awaited; it may end first.
    match select(pin!(answer), pin!(connection)).await {
        Either::Left((answer, _)) => answer,
        Either::Right((_, answer)) => answer.await,
    }
}

/// Reads a body. One that ends with the connection may end without TLS's closing message: some
/// servers leave it out.
async fn body(mut incoming: Incoming, ends_itself: bool) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    while let Some(frame) = incoming.frame().await {
        match frame {
            Ok(frame) => bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
            Err(error) if !ends_itself && is_cut(&error) => break,
            Err(error) => return Err(of_hyper(&error)),
        }
        if bytes.len() >= LARGEST {
            bytes.truncate(LARGEST);
            break;
        }
    }
    Ok(bytes)
}

fn is_cut(error: &hyper::Error) -> bool {
    let inner = error.source().and_then(|source| source.downcast_ref());
    inner.is_some_and(|error: &io::Error| error.kind() == io::ErrorKind::UnexpectedEof)
}

fn of_hyper(error: &hyper::Error) -> Failure {
    let inner = error.source().and_then(|source| source.downcast_ref());
    match inner {
        _ if error.is_parse() => Failure::Foreign,
        Some(inner) => failure(inner),
        None => Failure::Broken(error.to_string()),
    }
}

fn failure(error: &io::Error) -> Failure {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    match inner {
        Some(tls) => Failure::Tls(rustls::Error::clone(tls)),
        None => Failure::Broken(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Asks a server that reads the request, writes `answer` and closes the connection.
    async fn asked(method: &str, answer: &'static str) -> Result<Answer, Failure> {
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
        let answer = over(near, request.body(Full::default()).unwrap()).await;
        let heard = server.await.unwrap();
        assert!(
            heard.starts_with(&format!("{method} /v2/ HTTP/1.1\r\n")),
            "{heard}"
        );
        answer
    }

    #[tokio::test]
    async fn status_and_body_are_read_however_the_body_ends() {
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
            assert_eq!(asked("GET", answer).await.unwrap(), Answer { status, body });
        }
        let head = asked("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 700\r\n\r\n").await;
        assert_eq!(
            head.unwrap(),
            Answer {
                status: 200,
                body: Vec::new()
            }
        );
    }

    #[tokio::test]
    async fn a_connection_that_breaks_is_not_an_answer() {
        for answer in [
            "",
            "HTTP/1.1 200 OK\r\nContent-",
            "HTTP/1.1 200 OK\r\nContent-Length: 700\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
        ] {
            let broken = asked("GET", answer).await;
            assert!(
                matches!(broken, Err(Failure::Broken(_))),
                "{answer}: {broken:?}"
            );
        }
        let foreign = asked("GET", "SSH-2.0-OpenSSH_9.2\r\n").await;
        assert!(matches!(foreign, Err(Failure::Foreign)), "{foreign:?}");
    }

    #[tokio::test]
    async fn a_body_is_cut_off_where_it_is_too_large() {
        let large = format!("HTTP/1.0 200 OK\r\n\r\n{}", "x".repeat(LARGEST + 1));
        let (near, mut far) = tokio::io::duplex(1024);
        let server = tokio::spawn(async move {
            // The reader leaves before the end.
            let _ = far.write_all(large.as_bytes()).await;
        });
        let request = Request::builder().uri("/").body(Full::default()).unwrap();
        assert_eq!(over(near, request).await.unwrap().body.len(), LARGEST);
        server.await.unwrap();
    }
}

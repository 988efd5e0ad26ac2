//! A test server for downloads and a registry: HTTP/1.1 with ranges, and with configurable failures.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

/// The behavior of the server.
#[derive(Clone, Default)]
pub struct Rules {
    /// Ranges are refused; the whole file is sent instead.
    pub no_ranges: bool,
    /// `ETag` of every file.
    pub tag: Option<String>,
    /// The bytes per second of each connection.
    pub rate: Option<usize>,
    /// Each answer pauses after this number of bytes of its body, until the rule is removed.
    pub pause_after: Option<usize>,
    /// Each answer begins after this time, as from a mirror that downloads the file first.
    pub silent_for: Option<Duration>,
    /// Each answer breaks off after this number of bytes of its body.
    pub cut_after: Option<usize>,
    /// Further concurrent requests are answered with 503.
    pub at_once: Option<usize>,
    /// The bytes of ranges that do not start at the beginning are wrong.
    pub wrong_ranges: bool,
    /// The registry requires a token. Its token service accepts this `Authorization`, or a form that contains
    /// it.
    pub login: Option<String>,
    /// The address of the token service; without it, the registry's own.
    pub realm: Option<String>,
    /// Requests for blobs are redirected to this address.
    pub blobs_at: Option<String>,
    /// Requests for all files are redirected to this address.
    pub files_at: Option<String>,
}

/// The token of a registry with authentication.
const TOKEN: &str = "Bearer a-token-of-the-registry";

/// A request.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub path: String,
    pub headers: BTreeMap<String, String>,
    /// The body of the request.
    pub body: String,
}

impl Seen {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

#[derive(Default)]
struct State {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    rules: Mutex<Rules>,
    seen: Mutex<Vec<Seen>>,
    /// The number of requests in progress, and its maximum.
    at_once: Mutex<(usize, usize)>,
}

#[derive(Clone, Default)]
pub struct Origin {
    pub port: u16,
    scheme: &'static str,
    state: Arc<State>,
}

impl Origin {
    pub async fn start(rules: Rules) -> Self {
        Self::listen(rules, None).await
    }

    /// Starts a server with TLS.
    pub async fn start_tls(rules: Rules, tls: rustls::ServerConfig) -> Self {
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
        Self::listen(rules, Some(acceptor)).await
    }

    async fn listen(rules: Rules, tls: Option<tokio_rustls::TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        *state.rules.lock().unwrap() = rules;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let origin = Self {
            port,
            scheme,
            state,
        };
        let serving = origin.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (origin, tls) = (serving.clone(), tls.clone());
                tokio::spawn(async move {
                    let _ = match tls {
                        None => origin.serve(stream).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => origin.serve(stream).await,
                            Err(error) => Err(error),
                        },
                    };
                });
            }
        });
        origin
    }

    pub fn uri(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port)
    }

    pub fn put(&self, path: &str, content: impl Into<Vec<u8>>) {
        let mut files = self.state.files.lock().unwrap();
        files.insert(path.to_owned(), content.into());
    }

    pub fn remove(&self, path: &str) {
        let mut files = self.state.files.lock().unwrap();
        files.remove(path).unwrap();
    }

    pub fn rules(&self, change: impl FnOnce(&mut Rules)) {
        change(&mut self.state.rules.lock().unwrap());
    }

    /// Returns and forgets the requests whose path ends with this text.
    pub fn seen(&self, end: &str) -> Vec<Seen> {
        let mut seen = std::mem::take(&mut *self.state.seen.lock().unwrap());
        seen.retain(|seen| seen.path.ends_with(end));
        seen
    }

    /// Returns the maximum number of concurrent requests.
    pub fn most_at_once(&self) -> usize {
        self.state.at_once.lock().unwrap().1
    }

    async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let mut head = Vec::new();
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).await? == 0 {
                    return Ok(());
                }
                match line.trim_end() {
                    "" => break,
                    line => head.push(line.to_owned()),
                }
            }
            let path = head[0].split(' ').nth(1).unwrap_or("/").to_owned();
            let header = |line: &String| {
                let (name, value) = line.split_once(':')?;
                Some((name.to_lowercase(), value.trim().to_owned()))
            };
            let headers: BTreeMap<_, _> = head[1..].iter().filter_map(header).collect();
            let length = headers.get("content-length").map_or("0", String::as_str);
            let mut body = vec![0; length.parse().unwrap()];
            stream.read_exact(&mut body).await?;
            let body = String::from_utf8(body).unwrap();
            let seen = Seen {
                path,
                headers,
                body,
            };
            self.state.seen.lock().unwrap().push(seen.clone());
            let now = {
                let mut at_once = self.state.at_once.lock().unwrap();
                at_once.0 += 1;
                at_once.1 = at_once.1.max(at_once.0);
                at_once.0
            };
            self.answer(&seen, now, stream.get_mut()).await?;
        }
    }

    /// Returns what a registry answers instead of content.
    fn instead(&self, rules: &Rules, seen: &Seen) -> Option<String> {
        let authorization = seen.header("authorization");
        if let Some(login) = &rules.login {
            if seen.path.starts_with("/token") {
                let good = authorization == login
                    || seen.body.contains(login.as_str()) && !login.is_empty();
                let body = if good {
                    format!(r#"{{"token": "{}"}}"#, &TOKEN["Bearer ".len()..])
                } else {
                    return Some(refusal("403 Forbidden", ""));
                };
                let length = body.len();
                return Some(format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}"
                ));
            }
            if seen.path.starts_with("/v2/") && authorization != TOKEN {
                let own = format!("{}/token", self.uri());
                let realm = rules.realm.clone().unwrap_or(own);
                let challenge =
                    format!("www-authenticate: Bearer realm=\"{realm}\",service=\"s\"\r\n");
                return Some(refusal("401 Unauthorized", &challenge));
            }
        }
        if let Some(elsewhere) = &rules.files_at {
            let place = format!("location: {elsewhere}{}\r\n", seen.path);
            return Some(refusal("302 Found", &place));
        }
        let elsewhere = rules.blobs_at.as_ref()?;
        let blob = seen.path.contains("/blobs/").then_some(&seen.path)?;
        Some(refusal(
            "307 Elsewhere",
            &format!("location: {elsewhere}{blob}\r\n"),
        ))
    }

    async fn answer(
        &self,
        seen: &Seen,
        now: usize,
        stream: &mut (impl AsyncWrite + Unpin),
    ) -> std::io::Result<()> {
        let rules = self.state.rules.lock().unwrap().clone();
        tokio::time::sleep(rules.silent_for.unwrap_or_default()).await;
        let content = self.state.files.lock().unwrap().get(&seen.path).cloned();
        let empty = |status: &str| refusal(status, "");
        // Before the last bytes are written: a client that has them may send its next request.
        let over = || self.state.at_once.lock().unwrap().0 -= 1;
        if let Some(instead) = self.instead(&rules, seen) {
            over();
            return stream.write_all(instead.as_bytes()).await;
        }
        if rules.at_once.is_some_and(|most| now > most) {
            over();
            return stream.write_all(empty("503 Busy").as_bytes()).await;
        }
        let Some(content) = content else {
            over();
            return stream.write_all(empty("404 Not Found").as_bytes()).await;
        };
        let range = seen.header("range").strip_prefix("bytes=");
        let same = [Some(""), rules.tag.as_deref()].contains(&Some(seen.header("if-range")));
        let range = range.filter(|_| same && !rules.no_ranges);
        if let Some((from, _)) = range.and_then(|range| range.split_once('-'))
            && from.parse::<usize>().unwrap() >= content.len()
        {
            over();
            return stream.write_all(empty("416 Beyond").as_bytes()).await;
        }
        let (status, mut body, extra) = match range.and_then(|range| range.split_once('-')) {
            None => ("200 OK", content.clone(), String::new()),
            Some((from, to)) => {
                let from: usize = from.parse().unwrap();
                let last = to.parse().unwrap_or(usize::MAX).min(content.len() - 1);
                let range = format!("content-range: bytes {from}-{last}/{}\r\n", content.len());
                ("206 Partial Content", content[from..=last].to_vec(), range)
            }
        };
        if rules.wrong_ranges && !extra.is_empty() && !extra.contains("bytes 0-") {
            body.fill(b'?');
        }
        let tag = rules.tag.as_ref().map(|tag| format!("etag: {tag}\r\n"));
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\n{extra}{}\r\n",
            body.len(),
            tag.unwrap_or_default()
        );
        stream.write_all(head.as_bytes()).await?;
        let body = &body[..rules.cut_after.unwrap_or(body.len()).min(body.len())];
        let step = rules
            .rate
            .map_or(body.len().max(1), |rate| rate.div_ceil(50));
        let pause_after = rules.pause_after.filter(|count| *count < body.len());
        let body = match pause_after {
            None => body,
            Some(count) => {
                stream.write_all(&body[..count]).await?;
                stream.flush().await?;
                while self.state.rules.lock().unwrap().pause_after.is_some() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                &body[count..]
            }
        };
        let mut parts = body.chunks(step).peekable();
        while let Some(part) = parts.next() {
            if rules.rate.is_some() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            if parts.peek().is_none() {
                over();
            }
            stream.write_all(part).await?;
            stream.flush().await?;
        }
        if body.is_empty() {
            over();
        }
        match rules.cut_after {
            Some(_) => Err(std::io::ErrorKind::ConnectionReset.into()),
            None => Ok(()),
        }
    }
}

fn refusal(status: &str, headers: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n{headers}\r\n")
}

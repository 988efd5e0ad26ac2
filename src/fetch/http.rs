//! Files over HTTP: mirrors, retries, resume, checksums.

use std::time::Duration;

use futures_util::StreamExt;
use reqwest::header::{ETAG, IF_RANGE, RANGE, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use url::Url;

use super::cache::{Claim, Partial};
use super::{Cache, FetchError};
use crate::event::{Events, Transfer};
use crate::spec::Digest;
use crate::spec::manifest::Mirrors;

/// How often a file is tried before kubexm gives up.
const TRIES: u32 = 5;
/// A stalled read counts as a broken line after this long.
const STALLED: Duration = Duration::from_secs(30);
/// The longest that a `Retry-After` is followed.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// An HTTP client with a cache and mirrors.
#[derive(Clone)]
pub struct Http {
    client: reqwest::Client,
    mirrors: Mirrors,
    cache: Cache,
    events: Events,
}

/// What to download.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// What a person calls it.
    pub label: String,
    /// Its public address.
    pub url: Url,
    /// What its digest must be, where known.
    pub expected: Option<Digest>,
}

/// Why one try failed: worth another, or final.
enum Failure {
    Again(Box<FetchError>, Option<Duration>),
    Final(Box<FetchError>),
}

impl Failure {
    fn last(error: FetchError) -> Self {
        Self::Final(Box::new(error))
    }
}

impl Http {
    /// A client that puts what it downloads into `cache`.
    pub fn new(mirrors: Mirrors, cache: Cache, events: Events) -> Result<Self, FetchError> {
        let client = reqwest::Client::builder()
            .user_agent(concat!("kubexm/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_secs(15))
            .read_timeout(STALLED)
            .build()
            .map_err(|error| FetchError::Resolve(format!("cannot set up HTTP: {error}")))?;
        Ok(Self {
            client,
            mirrors,
            cache,
            events,
        })
    }

    /// The cache.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Where downloads are told.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Where registries are mirrored.
    pub fn mirrors(&self) -> &Mirrors {
        &self.mirrors
    }

    /// A small text, such as a checksum file: at most `limit` bytes, never cached.
    pub async fn text(&self, label: &str, url: &Url, limit: usize) -> Result<String, FetchError> {
        let bytes = self.bytes(label, url, limit).await?;
        String::from_utf8(bytes).map_err(|_| FetchError::Content {
            what: label.to_owned(),
            reason: format!("{} is no text", shown(url)),
        })
    }

    /// A small file in memory: at most `limit` bytes, never cached.
    pub async fn bytes(&self, label: &str, url: &Url, limit: usize) -> Result<Vec<u8>, FetchError> {
        let address = self.mirrored(url)?;
        self.persist(|| async {
            let response = self.get(label, &address, None).await?;
            let mut bytes = Vec::new();
            let mut stream = response.bytes_stream();
            while let Some(chunk) = stream.next().await {
                let chunk = chunk.map_err(|error| broken(label, &address, &error))?;
                if bytes.len() + chunk.len() > limit {
                    return Err(Failure::last(FetchError::Content {
                        what: label.to_owned(),
                        reason: format!("{} is larger than {limit} bytes", shown(&address)),
                    }));
                }
                bytes.extend_from_slice(&chunk);
            }
            Ok(bytes)
        })
        .await
    }

    /// Downloads into the cache, going on where an earlier run stopped.
    ///
    /// # Errors
    /// All ways in which networks, servers, checksums and disks fail; nothing wrong is kept.
    pub async fn download(&self, wanted: &Wanted) -> Result<(Digest, u64), FetchError> {
        if let Some(digest) = &wanted.expected
            && let Some(size) = self.cache.size(digest)
        {
            return Ok((*digest, size));
        }
        let address = self.mirrored(&wanted.url)?;
        self.persist(|| self.try_download(wanted, &address)).await
    }

    async fn try_download(&self, wanted: &Wanted, address: &Url) -> Result<(Digest, u64), Failure> {
        let key = match &wanted.expected {
            Some(digest) => digest.hex(),
            None => Digest::of(wanted.url.as_str().as_bytes()).hex(),
        };
        let mut partial = match self.claim(&key, wanted.expected, &wanted.label).await {
            Ok(Claim::Partial(partial)) => *partial,
            Ok(Claim::Published(digest, size)) => return Ok((digest, size)),
            Err(error) => return Err(Failure::last(error)),
        };
        if wanted.expected.is_some_and(|digest| partial.is(&digest)) {
            // Killed between the last byte and the final name: everything is there.
            let (label, length) = (wanted.label.clone(), partial.length());
            let transfer = self.events.transfer("download", label, Some(length));
            transfer.advance(length);
            return publish(partial, wanted, address, transfer);
        }
        let response = self.go_on(wanted, address, &mut partial).await?;
        if response.status() != StatusCode::PARTIAL_CONTENT {
            partial.restart().map_err(Failure::last)?;
        }
        let tag = response
            .headers()
            .get(ETAG)
            .and_then(|tag| tag.to_str().ok())
            // A weak tag does not promise the same bytes (RFC 9110, 13.1.5).
            .filter(|tag| !tag.starts_with("W/"));
        partial.set_tag(tag).map_err(Failure::last)?;
        let total = response
            .content_length()
            .map(|rest| rest + partial.length());
        partial.expect(total);
        let transfer = self
            .events
            .transfer("download", wanted.label.clone(), total);
        transfer.advance(partial.length());
        let mut stream = response.bytes_stream();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| broken(&wanted.label, address, &error))?;
            partial.append(&chunk).map_err(Failure::last)?;
            transfer.advance(chunk.len() as u64);
        }
        if total.is_some_and(|total| partial.length() < total) {
            return Err(Failure::Again(
                Box::new(cut_off(&wanted.label, address)),
                None,
            ));
        }
        publish(partial, wanted, address, transfer)
    }

    /// The partial file of a download, for this process alone; says so where it has to wait.
    pub(super) async fn claim(
        &self,
        key: &str,
        expected: Option<Digest>,
        label: &str,
    ) -> Result<Claim, FetchError> {
        let (events, label) = (self.events.clone(), label.to_owned());
        let on_wait = move || {
            events.note(format!(
                "{label}: another kubexm is downloading it; waiting for it"
            ));
        };
        self.cache.claim(key, expected, on_wait).await
    }

    /// Asks for what a partial file lacks, or for all of it where the server no longer has a file
    /// that goes on from there: left to itself that answer would come back for ever.
    async fn go_on(
        &self,
        wanted: &Wanted,
        address: &Url,
        partial: &mut Partial,
    ) -> Result<Response, Failure> {
        let resume = match partial.tag() {
            Some(tag) if partial.length() > 0 => Some((partial.length(), tag)),
            _ => None,
        };
        let resumed = resume.is_some();
        match self.get(&wanted.label, address, resume).await {
            Err(Failure::Final(error)) if resumed && is_beyond_the_end(&error) => {
                partial.restart().map_err(Failure::last)?;
                self.get(&wanted.label, address, None).await
            }
            answer => answer,
        }
    }

    /// One request. With `resume`, asks for the bytes from there on if the file is still the same.
    async fn get(
        &self,
        label: &str,
        url: &Url,
        resume: Option<(u64, String)>,
    ) -> Result<Response, Failure> {
        let mut request = self.client.get(url.clone());
        if let Some((from, tag)) = resume {
            request = request
                .header(RANGE, format!("bytes={from}-"))
                .header(IF_RANGE, tag);
        }
        let response = request
            .send()
            .await
            .map_err(|error| broken(label, url, &error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let wait = retry_after(&response);
        let refused = Box::new(refused(label, url, status));
        match status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
                Err(Failure::Again(refused, wait))
            }
            status if status.is_server_error() => Err(Failure::Again(refused, wait)),
            _ => Err(Failure::Final(refused)),
        }
    }

    /// Tries again with growing pauses while that may help.
    async fn persist<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, FetchError> {
        let mut pause = Duration::from_millis(300);
        for left in (0..TRIES).rev() {
            match attempt().await {
                Ok(value) => return Ok(value),
                Err(Failure::Final(error)) => return Err(*error),
                Err(Failure::Again(error, _)) if left == 0 => return Err(*error),
                Err(Failure::Again(_, asked)) => {
                    tokio::time::sleep(asked.unwrap_or(pause).min(LONGEST_WAIT)).await;
                    pause *= 2;
                }
            }
        }
        Err(FetchError::Resolve("no try was made".to_owned()))
    }

    /// The address to ask instead of the public one: the longest mirrored prefix wins.
    fn mirrored(&self, url: &Url) -> Result<Url, FetchError> {
        let text = url.as_str();
        let matching = |prefix: &&String| {
            text.strip_prefix(prefix.as_str()).is_some_and(|rest| {
                rest.is_empty() || prefix.ends_with('/') || rest.starts_with('/')
            })
        };
        let Some(prefix) = self
            .mirrors
            .downloads
            .keys()
            .filter(matching)
            .max_by_key(|p| p.len())
        else {
            return Ok(url.clone());
        };
        let address = format!(
            "{}{}",
            self.mirrors.downloads[prefix],
            &text[prefix.len()..]
        );
        Url::parse(&address)
            .map_err(|error| FetchError::Resolve(format!("the mirror address {address}: {error}")))
    }
}

fn publish(
    partial: Partial,
    wanted: &Wanted,
    address: &Url,
    transfer: Transfer,
) -> Result<(Digest, u64), Failure> {
    match partial
        .publish(wanted.expected.as_ref())
        .map_err(Failure::last)?
    {
        Ok(done) => {
            transfer.done();
            Ok(done)
        }
        Err(got) => Err(Failure::last(FetchError::Checksum {
            what: wanted.label.clone(),
            url: shown(address),
            expected: wanted.expected.unwrap_or(got),
            got,
        })),
    }
}

fn is_beyond_the_end(error: &FetchError) -> bool {
    matches!(error, FetchError::Refused { status, .. } if *status == StatusCode::RANGE_NOT_SATISFIABLE)
}

/// An address without the user and password that it may carry.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_password(None);
    let _ = url.set_username("");
    url.to_string()
}

fn broken(label: &str, url: &Url, error: &reqwest::Error) -> Failure {
    use std::error::Error;
    // The innermost cause is what tells ("dns error", "connection refused", "timed out").
    let mut reason = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        reason = inner.to_string();
        cause = inner.source();
    }
    let (what, url) = (label.to_owned(), shown(url));
    Failure::Again(
        Box::new(FetchError::Unreachable { what, url, reason }),
        None,
    )
}

fn cut_off(label: &str, url: &Url) -> FetchError {
    let reason = "the line dropped before the end; run again to go on from there".to_owned();
    FetchError::Unreachable {
        what: label.to_owned(),
        url: shown(url),
        reason,
    }
}

fn refused(label: &str, url: &Url, status: StatusCode) -> FetchError {
    let hint = match status.as_u16() {
        401 | 403 => "it wants credentials, or this network may not ask it",
        404 | 410 => "does this version exist? (see the project's releases)",
        429 => "too many requests; wait, or use a mirror (--mirrors)",
        500.. => "the server failed again and again; try later, or use a mirror (--mirrors)",
        _ => "unexpected",
    };
    FetchError::Refused {
        what: label.to_owned(),
        url: shown(url),
        status: status.as_u16(),
        hint: hint.to_owned(),
    }
}

fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response
        .headers()
        .get(RETRY_AFTER)?
        .to_str()
        .ok()?
        .parse()
        .ok()?;
    Some(Duration::from_secs(seconds))
}

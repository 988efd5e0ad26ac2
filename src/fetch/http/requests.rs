//! The client: requests and downloads from the addresses of a file, in order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::header::{HeaderMap, LINK};
use url::Url;

use super::stated_by::{StatedBy, stated_by};
use crate::client::{Access, Client, GetRequest, GetResponse};
use crate::download::Job;
use crate::local_source::LocalBundles;
use crate::response::shown;
use crate::retry::{Failure, TRIES, Tries};
use crate::{Cache, FetchError};

use kubexm_bundle::Bundle;
use kubexm_config::mirrors::Mirrors;
use kubexm_sandbox::Sandbox;
use kubexm_types::Digest;
use kubexm_types::event::{Counter, Events};

/// Number of attempts per address while there is another address.
pub(super) const TRIES_OF_SEVERAL: u32 = 2;
/// An HTTP client with a cache and mirrors.
#[derive(Clone)]
pub struct Http {
    client: Client,
    mirrors: Arc<Mirrors>,
    cache: Cache,
    events: Events,
    counter: Arc<Counter>,
    /// Publishers that could not be reached in this run, each with the cause.
    pub(super) out_of_reach: Arc<Mutex<BTreeMap<String, String>>>,
    local_bundles: LocalBundles,
    sandbox: Sandbox,
    /// One lock for each file that this process downloads, by key.
    turns: Turns,
}

/// Locks by the key of a download.
type Turns = Arc<Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>>;

/// A file to download.
#[derive(Clone)]
pub struct Wanted {
    /// The file's name for messages.
    pub label: String,
    /// The public address; with a login if its server requires one.
    pub url: Url,
    /// The expected digest, if known.
    pub expected: Option<Digest>,
    /// The expected size in bytes, if known.
    pub size: Option<u64>,
}

/// A small document to read into memory.
pub(crate) struct Small<'a> {
    pub label: &'a str,
    pub access: &'a Access,
    pub headers: HeaderMap,
    pub limit: usize,
}

impl Http {
    /// Creates a client that stores downloads in `cache`.
    ///
    /// # Errors
    /// Certificates cannot be read.
    pub fn new(mirrors: Mirrors, cache: Cache, events: Events) -> Result<Self, FetchError> {
        let mirrors = Arc::new(mirrors);
        Ok(Self {
            client: Client::new(Arc::clone(&mirrors))?,
            mirrors,
            cache,
            counter: Arc::new(Counter::new(events.clone(), "downloads")),
            events,
            out_of_reach: Arc::default(),
            local_bundles: LocalBundles::new(Vec::new()),
            sandbox: Sandbox::default(),
            turns: Arc::default(),
        })
    }

    /// Returns a client that searches these bundles before it requests content with a known digest from a
    /// server.
    #[must_use]
    pub fn with_local_bundles(self, bundles: Vec<Bundle>) -> Self {
        Self {
            local_bundles: LocalBundles::new(bundles),
            ..self
        }
    }

    /// Returns a client whose downloads are executed in this sandbox. By default, this program starts the
    /// sandbox.
    #[must_use]
    pub fn with_sandbox(self, sandbox: Sandbox) -> Self {
        Self { sandbox, ..self }
    }

    /// Returns how downloaded programs run.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Returns the local bundles.
    pub(crate) fn local_bundles(&self) -> &LocalBundles {
        &self.local_bundles
    }

    /// Returns the cache.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Returns the counter of files, packages and blobs that this client fetches.
    pub(crate) fn counter(&self) -> &Counter {
        &self.counter
    }

    /// Returns the sink for events of downloads.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Returns the mirrors.
    pub fn mirrors(&self) -> &Mirrors {
        &self.mirrors
    }

    /// Reads a small file of at most `limit` bytes into memory, without the cache.
    ///
    /// # Errors
    /// The request fails, or the file is too large.
    pub async fn bytes(&self, label: &str, url: &Url, limit: usize) -> Result<Vec<u8>, FetchError> {
        let small = Small::open(label, limit);
        let read = |address: Url, tries| {
            let small = &small;
            async move { self.small(small, &address, tries).await }
        };
        self.first_good(label, self.mirrored(url)?, read).await
    }

    /// Reads a small text of at most `limit` bytes, such as a signed list, without the cache.
    ///
    /// # Errors
    /// The request fails, or the file is too large or not UTF-8.
    pub async fn text(&self, label: &str, url: &Url, limit: usize) -> Result<String, FetchError> {
        text(label, url, self.bytes(label, url, limit).await?)
    }

    /// Downloads a file into the cache and continues an earlier partial download.
    ///
    /// # Errors
    /// The request fails, the digest differs, or the cache cannot be written. Wrong content is not kept.
    pub async fn download(&self, wanted: &Wanted) -> Result<(Digest, u64), FetchError> {
        if let Some(digest) = &wanted.expected
            && let Some(size) = self.load_local(&wanted.label, digest).await?
        {
            return Ok((*digest, size));
        }
        let own_name = Digest::of(wanted.url.as_str().as_bytes());
        let key = wanted.expected.unwrap_or(own_name).hex();
        let (found, _) = self
            .download_from(wanted, self.mirrored(&wanted.url)?, &key)
            .await?;
        Ok(found)
    }

    /// Downloads a file from the first address that has it.
    pub(super) async fn download_from(
        &self,
        wanted: &Wanted,
        addresses: Vec<Url>,
        key: &str,
    ) -> Result<((Digest, u64), StatedBy), FetchError> {
        let download = |address: Url, tries| {
            let by = stated_by(&wanted.url, &address);
            let job = self.job(Job {
                client: self.client.clone(),
                cache: self.cache.clone(),
                events: self.events.clone(),
                label: wanted.label.clone(),
                key: key.to_owned(),
                expected: wanted.expected,
                size: wanted.size,
                address,
                access: Access::Open,
                tries,
                turn: self.turn(key),
            });
            async move { Ok((job.await?, by)) }
        };
        self.first_good(&wanted.label, addresses, download).await
    }

    /// Downloads a blob of known digest and size.
    pub(crate) async fn blob(
        &self,
        label: &str,
        (digest, size): (Digest, u64),
        address: Url,
        access: Access,
        tries: u32,
    ) -> Result<(Digest, u64), FetchError> {
        let job = Job {
            client: self.client.clone(),
            cache: self.cache.clone(),
            events: self.events.clone(),
            label: label.to_owned(),
            key: digest.hex(),
            expected: Some(digest),
            size: Some(size),
            address,
            access,
            tries,
            turn: self.turn(&digest.hex()),
        };
        self.job(job).await
    }

    /// Returns the lock of a download: files with the same content are downloaded once.
    fn turn(&self, key: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(turns.entry(key.to_owned()).or_default())
    }

    /// Runs a download as a separate task, so that several downloads hash on several cores. The task ends
    /// when its caller is dropped.
    async fn job(&self, job: Job) -> Result<(Digest, u64), FetchError> {
        let task = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(job.run()));
        task.await.unwrap_or_else(|error| {
            Err(FetchError::resolve(format!(
                "a download task failed: {error}"
            )))
        })
    }

    /// Reads a small document from one address.
    pub(crate) async fn small(
        &self,
        small: &Small<'_>,
        address: &Url,
        tries: u32,
    ) -> Result<Vec<u8>, FetchError> {
        let (bytes, _) = self.page(small, address, tries).await?;
        Ok(bytes)
    }

    /// Reads a page of a list from one address; returns it with the address of the next page.
    pub(crate) async fn page(
        &self,
        small: &Small<'_>,
        address: &Url,
        tries: u32,
    ) -> Result<(Vec<u8>, Option<Url>), FetchError> {
        let mut tries = Tries::new(tries);
        loop {
            let ask = GetRequest {
                label: small.label,
                url: address,
                access: small.access,
                headers: small.headers.clone(),
            };
            match self.once(&ask, small.limit).await {
                Ok(page) => return Ok(page),
                Err(failure) => tries.wait(failure).await?,
            }
        }
    }

    async fn once(
        &self,
        ask: &GetRequest<'_>,
        limit: usize,
    ) -> Result<(Vec<u8>, Option<Url>), Failure> {
        let answer: GetResponse = self.client.get(ask).await?;
        let next = next_page(answer.response.headers(), ask.url);
        Ok((answer.bytes(ask, limit).await?, next))
    }

    /// Tries addresses in order and returns the first success. A failed address is reported as a note; the
    /// error of the last one is returned.
    pub(crate) async fn first_good<A, T, F>(
        &self,
        label: &str,
        addresses: Vec<A>,
        mut attempt: impl FnMut(A, u32) -> F,
    ) -> Result<T, FetchError>
    where
        F: Future<Output = Result<T, FetchError>>,
    {
        let mut left = addresses.len();
        for address in addresses {
            left -= 1;
            let tries = if left > 0 { TRIES_OF_SEVERAL } else { TRIES };
            match attempt(address, tries).await {
                Err(error) if left > 0 && error.is_of_a_server() => {
                    self.events
                        .note(format!("{error}\nTrying the next address for {label}."));
                }
                result => return result,
            }
        }
        Err(FetchError::resolve(format!(
            "{label}: no address is configured"
        )))
    }

    /// Returns the addresses to ask, in order: those of the longest mirrored prefix, or the public address.
    pub(super) fn mirrored(&self, url: &Url) -> Result<Vec<Url>, FetchError> {
        let Some(addresses) = self.mirrors.for_download(url.as_str()) else {
            return Ok(vec![url.clone()]);
        };
        let parse = |address: String| {
            Url::parse(&address).map_err(|error| {
                FetchError::resolve(format!("a mirror's address for {}: {error}", shown(url)))
            })
        };
        addresses.into_iter().map(parse).collect()
    }
}

impl<'a> Small<'a> {
    pub(super) fn open(label: &'a str, limit: usize) -> Self {
        Self {
            label,
            access: &Access::Open,
            headers: HeaderMap::new(),
            limit,
        }
    }
}

/// Returns the address of the next page, at the same server (RFC 8288).
fn next_page(headers: &HeaderMap, from: &Url) -> Option<Url> {
    let links = headers.get_all(LINK).iter();
    let links = links.filter_map(|link| link.to_str().ok());
    let next = links.flat_map(|link| link.split(',')).find_map(|link| {
        let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        let mut parameters = parameters.split(';').map(str::trim);
        let is_next = parameters.any(|p| matches!(p, "rel=next" | "rel=\"next\""));
        is_next.then_some(target)
    })?;
    let next = from.join(next).ok()?;
    (next.origin() == from.origin()).then_some(next)
}

pub(super) fn text(label: &str, url: &Url, bytes: Vec<u8>) -> Result<String, FetchError> {
    String::from_utf8(bytes).map_err(|_| FetchError::Content {
        what: label.to_owned(),
        reason: format!("{} is not UTF-8 text", shown(url)).into(),
    })
}

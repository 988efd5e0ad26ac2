//! The download of one file into the cache, over several connections and with retries.

use std::sync::Arc;

use tokio::sync::Mutex;
use url::Url;

use super::cache::Claim;
use super::client::{Access, Client};
use super::partial::Partial;
use super::ranged_download::{AttemptError, DownloadMode, RangedDownload};
use super::response::shown;
use super::retry::{Failure, Tries};
use super::{Cache, FetchError};
use kubexm_types::event::Events;
use kubexm_types::{Digest, Message};

pub(super) struct Job {
    pub client: Client,
    pub cache: Cache,
    pub events: Events,
    pub label: String,
    /// The name of the partial file.
    pub key: String,
    pub expected: Option<Digest>,
    pub size: Option<u64>,
    pub address: Url,
    pub access: Access,
    pub tries: u32,
    /// Held by the download of this key in this process. Only other processes wait for the lock of the file.
    pub turn: Arc<Mutex<()>>,
}

impl Job {
    /// Downloads the file; returns digest and size.
    pub async fn run(self) -> Result<(Digest, u64), FetchError> {
        let _turn = self.turn.lock().await;
        // Bytes from several responses may belong to several versions of a file, whatever the server
        // reports. A wrong digest is therefore final only for content from a single response.
        for way in [DownloadMode::Ranges, DownloadMode::Whole] {
            let partial = match self.claim().await? {
                Claim::Published(digest, size) => return Ok((digest, size)),
                Claim::Partial(partial) => *partial,
            };
            let in_one_piece = self.fill(&partial, way).await?;
            let expected = self.expected;
            let published = tokio::task::spawn_blocking(move || partial.publish(expected.as_ref()));
            let published = published.await.map_err(|error| {
                FetchError::resolve(format!(
                    "{}: cannot store the download: {error}",
                    self.label
                ))
            })?;
            match published? {
                Ok(done) => return Ok(done),
                Err(got) if in_one_piece || way == DownloadMode::Whole => {
                    return Err(self.wrong(got));
                }
                Err(_) => {
                    tracing::debug!(
                        label = self.label,
                        "ranges are inconsistent; requesting the whole file"
                    )
                }
            }
        }
        Err(FetchError::resolve(format!(
            "{}: no address was tried",
            self.label
        )))
    }

    /// Locks the partial file for this process; reports that it waits for another process.
    async fn claim(&self) -> Result<Claim, FetchError> {
        let (events, label) = (self.events.clone(), self.label.clone());
        let on_wait = move || {
            events.note(format!(
                "{label}: waiting for another kubexm process that downloads it"
            ));
        };
        self.cache.claim(&self.key, self.expected, on_wait).await
    }

    /// Fetches the missing bytes, with retries. Returns whether a single response had all of them.
    async fn fill(&self, partial: &Partial, way: DownloadMode) -> Result<bool, FetchError> {
        let download = RangedDownload::new(self, partial);
        if self.expected.is_some_and(|digest| partial.is(&digest)) {
            // The process was killed after the last byte and before the rename: nothing is missing.
            download.start_transfer(Some(partial.length()));
            download.done();
            return Ok(false);
        }
        let (mut way, mut in_one_piece) = (way, partial.length() == 0);
        let mut tries = Tries::new(self.tries);
        let mut furthest = partial.length();
        loop {
            let failure = match download.attempt(way).await {
                Ok(whole) => {
                    download.done();
                    return Ok(in_one_piece && whole);
                }
                Err(AttemptError::OtherMode(other)) => {
                    way = other;
                    continue;
                }
                Err(AttemptError::Failed(failure)) => failure,
            };
            in_one_piece = false;
            partial.record()?;
            // The redirect target may be unreachable; the original address may redirect elsewhere.
            download.forget_redirect();
            if partial.length() > furthest {
                furthest = partial.length();
                tries.start_over();
            }
            tries.wait(failure).await?;
        }
    }

    fn wrong(&self, got: Digest) -> FetchError {
        FetchError::Checksum {
            what: self.label.clone(),
            url: shown(&self.address),
            expected: self.expected.unwrap_or(got),
            got,
        }
    }

    pub fn content(&self, reason: String) -> FetchError {
        FetchError::Content {
            what: self.label.clone(),
            reason: format!("{}: {reason}", shown(&self.address)).into(),
        }
    }

    pub fn cut_off(&self) -> Failure {
        Failure::again(FetchError::Unreachable {
            what: self.label.clone(),
            url: shown(&self.address),
            reason: Message::new("the connection broke before the end")
                .hint("run the same command again to continue"),
        })
    }
}

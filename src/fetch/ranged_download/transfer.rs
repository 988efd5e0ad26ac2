//! The state of a running download, and single requests of it.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use reqwest::header::{HeaderMap, HeaderValue, IF_RANGE, RANGE};
use tokio::sync::Notify;
use url::Url;

use crate::FetchError;
use crate::client::{GetRequest, GetResponse};
use crate::download::Job;
use crate::pace::Pace;
use crate::partial::Partial;
use crate::range_answer::range_header;
use crate::range_scheduler::RangeScheduler;
use crate::response::{broken, shown};
use crate::retry::Failure;
use kubexm_types::Message;
use kubexm_types::event::Transfer;

/// How a file is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DownloadMode {
    /// In ranges, if the server supports them.
    Ranges,
    /// In one response.
    Whole,
}

/// A running download.
pub(crate) struct RangedDownload<'a> {
    pub(super) job: &'a Job,
    pub(super) partial: &'a Partial,
    pub(super) ranges: RangeScheduler,
    /// The address of the last response after redirects, so that a range request need not be redirected
    /// again.
    address: Mutex<Url>,
    transfer: Mutex<Option<Transfer>>,
    pace: Pace,
    pub(super) complete: Notify,
}

/// Why an attempt ended before the file was complete.
pub(crate) enum AttemptError {
    /// The attempt failed; the failure says whether to try again.
    Failed(Failure),
    /// The file must be requested in another mode, at once.
    OtherMode(DownloadMode),
}

impl From<Failure> for AttemptError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<FetchError> for AttemptError {
    fn from(error: FetchError) -> Self {
        Self::Failed(Failure::last(error))
    }
}

impl<'a> RangedDownload<'a> {
    /// Creates a download that continues from the partial file.
    pub fn new(job: &'a Job, partial: &'a Partial) -> Self {
        Self {
            job,
            partial,
            ranges: RangeScheduler::default(),
            address: Mutex::new(job.address.clone()),
            transfer: Mutex::default(),
            pace: Pace::start(),
            complete: Notify::new(),
        }
    }

    /// Writes the bytes of a response to their range and advances `at`.
    pub(super) async fn receive(
        &self,
        answer: GetResponse,
        range: &Range<u64>,
        at: &mut u64,
    ) -> Result<(), Failure> {
        let total = self.partial.version().total;
        let url = answer.response.url().clone();
        let GetResponse {
            response,
            permit: _permit,
        } = answer;
        let mut stream = response.bytes_stream();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| broken(&self.job.label, &url, &error))?;
            if chunk.len() as u64 > range.end - *at {
                let reason = "sends more bytes than it should".to_owned();
                return Err(Failure::last(self.job.content(reason)));
            }
            self.partial.write(*at, &chunk).map_err(Failure::last)?;
            *at += chunk.len() as u64;
            self.advance(chunk.len() as u64);
            let in_time = self.pace.advance(chunk.len() as u64);
            in_time.map_err(|reason| self.too_slow(reason))?;
        }
        if total.is_some() && *at < range.end {
            return Err(self.job.cut_off());
        }
        if self.is_complete() {
            self.complete.notify_one();
        }
        Ok(())
    }

    pub(super) async fn request(&self, range: Option<Range<u64>>) -> Result<GetResponse, Failure> {
        let mut headers = HeaderMap::new();
        if let Some(range) = range {
            let version = self.partial.version();
            headers.insert(RANGE, range_header(&range, version.total.or(self.job.size)));
            let tag = version.tag.and_then(|tag| HeaderValue::from_str(&tag).ok());
            headers.extend(tag.map(|tag| (IF_RANGE, tag)));
        }
        let address = self.address().clone();
        let ask = GetRequest {
            label: &self.job.label,
            url: &address,
            access: &self.job.access,
            headers,
        };
        self.job.client.get(&ask).await
    }

    pub(super) fn is_complete(&self) -> bool {
        let total = self.partial.version().total;
        total.is_some_and(|total| self.partial.length() == total)
    }

    /// Discards the redirected address. Returns `false` if there is none.
    pub fn forget_redirect(&self) -> bool {
        let mut address = self.address();
        let sent_on = *address != self.job.address;
        *address = self.job.address.clone();
        sent_on
    }

    /// Starts the progress events of the transfer at the number of bytes that are present.
    pub fn start_transfer(&self, total: Option<u64>) {
        let label = self.job.label.clone();
        let transfer = self.job.events.transfer("download", label, total);
        transfer.advance(self.partial.length());
        *self.transfer() = Some(transfer);
    }

    fn too_slow(&self, reason: Message) -> Failure {
        Failure::last(FetchError::Unreachable {
            what: self.job.label.clone(),
            url: shown(&self.job.address),
            reason,
        })
    }

    fn advance(&self, bytes: u64) {
        if let Some(transfer) = self.transfer().as_ref() {
            transfer.advance(bytes);
        }
    }

    pub fn done(&self) {
        if let Some(transfer) = self.transfer().take() {
            transfer.done();
        }
    }

    pub(super) fn address(&self) -> MutexGuard<'_, Url> {
        self.address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn transfer(&self) -> MutexGuard<'_, Option<Transfer>> {
        self.transfer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
